"""`python -m lowgraph doctor`: a script is run as it is, and what its captures did is reported.

Exit code: the script's own where it failed, 2 for bad input, else 1 if anything was found.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from lowgraph.cli.outcome import FAILED, INTERRUPTED
from lowgraph.cli.script import (
    Script,
    add_script,
    exit_code_of,
    reporting,
    run_script,
    script_of,
    show_error,
)

if TYPE_CHECKING:
    from lowgraph.debug.doctor import Doctor

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY = "run a script and report what its captures hold, leak and are refused; exit 1 if anything"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags; all but --json stand before the script."""
    add_script(parser, "[--bisect] [--quiet] ")
    parser.add_argument(
        "--bisect",
        action="store_true",
        help="ask for the capture's status after every op and line of a recorded pass, and record "
        "each step once more, for nothing, to find work on the legacy stream (slower: "
        "docs/doctor.md)",
    )
    parser.add_argument(
        "--quiet", action="store_true", help="no line on stderr for each capture as it ends"
    )


def run(given: argparse.Namespace) -> None:
    """Run the script and print the report; ends with SystemExit unless all is well."""
    script = script_of(given, "doctor")
    from lowgraph.debug.doctor import Doctor  # needs the driver's bindings

    doctor = Doctor(given.bisect, _silent if given.quiet else _progress)
    process, start = os.getpid(), time.perf_counter()
    code, kept, out = 0, dict[str, Any](), sys.stdout
    try:
        with doctor:
            code, kept = _outcome(script)
    except KeyboardInterrupt:
        code = INTERRUPTED
        raise
    finally:
        # A child that was forked and came here by itself has its own exit code, and no report.
        found = 0
        if os.getpid() == process:
            with reporting(out):
                found = _report(doctor, script, code, time.perf_counter() - start)
        kept.clear()
    if code or found:
        raise SystemExit(code or FAILED)


def _outcome(script: Script) -> tuple[int, dict[str, Any]]:
    """The script's exit code, and its globals: its graphs live until they have been looked at."""
    try:
        return 0, run_script(script)
    except SystemExit as ended:
        return exit_code_of(ended), {}
    except Exception as error:
        show_error(error, script)
        return FAILED, {}


def _report(doctor: Doctor, script: Script, code: int, seconds: float) -> int:
    from lowgraph.train.result import finite, write_json

    report = doctor.report()
    for line in report.lines():
        print(line)
    print(
        f"{script.path} ended with {code} after {seconds:.1f} s, {report.seconds:.2f} s of it in "
        "the doctor"
    )
    if script.json is not None:
        told = {"script": str(script.path), "exit_code": code, **report.as_dict()}
        write_json(script.json, finite(told))
    return report.findings


def _progress(text: str) -> None:
    print(f"doctor: {text}", file=sys.stderr)


def _silent(text: str) -> None:
    """Say nothing."""
