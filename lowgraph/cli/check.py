"""`python -m lowgraph check`: a script on the host device, every memory access of its kernels seen.

Exit code: 1 if anything was found, 2 for bad input, else the script's own.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from lowgraph import hostdev
from lowgraph.cli.outcome import FAILED
from lowgraph.cli.script import (
    Script,
    add_script,
    exit_code_of,
    reporting,
    run_script,
    script_of,
    show_error,
)
from lowgraph.driver.callers import from_folder
from lowgraph.errors import DeviceUnavailable
from lowgraph.hostdev import check, control
from lowgraph.hostdev.check import Finding, Site
from lowgraph.memory import counted
from lowgraph.train.result import write_json

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY = "run a script on the host device and report what its kernels do wrong; exit 1 if anything"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add_script(parser)


def run(given: argparse.Namespace) -> None:
    """Run the script, print what was found; ends with SystemExit unless all is well."""
    script = script_of(given, "check")
    _ask_for_checks()
    out = sys.stdout
    try:
        code = _outcome(script)
    finally:
        found = _collect()
        with reporting(out):
            for finding in found:
                print(from_folder(script.folder, _text(finding)))
            print(_summary(found))
        if script.json is not None:
            write_json(script.json, {"findings": [finding.as_dict() for finding in found]})
    if found or code:
        raise SystemExit(FAILED if found else code)


def _ask_for_checks() -> None:
    """Before the host device is loaded, which reads it once."""
    if hostdev.is_loaded() and not check.enabled():
        raise DeviceUnavailable("this process has the host device open, without checks")
    os.environ[check.SWITCH] = "1"
    check.kernel_seconds()  # refuses a wrong limit now, and not in the script


def _outcome(script: Script) -> int:
    """Its exit code. What it raised is shown, but passed on if the device it asked for is why."""
    try:
        run_script(script)
    except SystemExit as ended:
        return exit_code_of(ended)
    except (DeviceUnavailable, KeyboardInterrupt):
        raise
    except Exception as error:
        show_error(error, script)
        return FAILED
    return 0


def _collect() -> list[Finding]:
    """What was found, once all work is done."""
    if not hostdev.is_loaded():
        return []
    control.finish()
    return check.findings()


def _summary(found: Sequence[Finding]) -> str:
    if not hostdev.is_loaded():
        return "0 findings: the script opened no device"
    kinds = len({finding.kind for finding in found})
    kernels = len({finding.site.kernel for finding in found})
    launches = check.launches()
    if not found:  # 0 kernels would read as if none had been checked
        return f"0 findings in {launches} launch{'' if launches == 1 else 'es'} checked"
    return (
        f"{counted(len(found), 'finding')} ({counted(kinds, 'kind')}) in "
        f"{counted(kernels, 'kernel')}, {launches} launch{'' if launches == 1 else 'es'} checked"
    )


def _text(finding: Finding) -> str:
    site, other = finding.site, finding.other
    lines = [f"{_place(site) or _who(site)}: {finding.kind}: {finding.text}", f"    {_who(site)}"]
    if other is not None:
        lines.append(f"    other side: {': '.join(filter(None, (_place(other), _who(other))))}")
    if finding.allocation is not None:
        lines.append(f"    memory: {finding.allocation}")
    if finding.count > 1:
        lines.append(f"    seen {finding.count} times")
    return "\n".join(lines)


def _place(site: Site) -> str:
    return "" if site.file is None else f"{site.file}:{site.line}"


def _who(site: Site) -> str:
    who = site.kernel or "unknown"  # a copy, a memset
    if site.block is not None and site.thread is not None:
        who = f"kernel {who}, block {_index(site.block)}, thread {_index(site.thread)}"
    return who if site.work is None else f"{who}, {site.work}"


def _index(index: tuple[int, int, int]) -> str:
    return "(" + ",".join(map(str, index)) + ")"
