"""`python -m lowgraph check`: a script on the host device, every memory access of its kernels seen.

Exit code: 1 if anything was found or a kernel ran without being looked at, 2 for bad input, else
the script's own.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowgraph import hostdev
from lowgraph.cli import processes
from lowgraph.cli.outcome import FAILED
from lowgraph.cli.script import (
    Script,
    add_script,
    exit_code_of,
    program_of,
    reporting,
    run_script,
    script_of,
    show_error,
)
from lowgraph.driver.callers import from_folder
from lowgraph.errors import DeviceUnavailable
from lowgraph.hostdev import check, control
from lowgraph.hostdev.check import Finding, Report, Site, Unchecked
from lowgraph.memory import counted
from lowgraph.train.result import write_json

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY = "run a script on the host device and report what its kernels do wrong; exit 1 if anything"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add_script(parser, "[--exec] ")
    parser.add_argument(
        "--exec",
        action="store_true",
        help="SCRIPT is a program, of any language: it and what it starts find the host device's "
        "libcuda first, with checks on",
    )


def run(given: argparse.Namespace) -> None:
    """Run the script, print what was found; ends with SystemExit unless all is well."""
    script = program_of(given, "check") if given.exec else script_of(given, "check")
    check.kernel_seconds()  # refuses a wrong limit now, and not in the script
    out = sys.stdout
    with processes.told_of() as told:
        _begin(given.exec, told)
        code, seen = 1, Seen(check.Report((), (), 0), (), False)
        try:
            code = processes.run(script, told) if given.exec else _outcome(script)
        finally:
            seen = _collect(told, given.exec)
            with reporting(out):
                print(from_folder(script.folder, _told(seen)))
            if script.json is not None:
                write_json(script.json, _as_json(seen))
    if not seen.is_clean or code:
        raise SystemExit(code if seen.is_clean else FAILED)


@dataclass(frozen=True)
class Seen:
    """All that a run told. silent: processes that ended without a word. nobody: none had a device
    where a program was to have one.
    """

    report: Report
    silent: tuple[int, ...]
    nobody: bool

    @property
    def is_clean(self) -> bool:
        return self.report.is_clean and not self.silent and not self.nobody


def _begin(program: bool, told: Path) -> None:
    """Switch the checks on, and have the library in this process before a script asks for one.

    Whoever asks for libcuda.so.1 then gets it: cuda.bindings, cuda.core, a library of C.
    """
    if hostdev.is_loaded() and not check.enabled():
        raise DeviceUnavailable("this process has the host device open, without checks")
    if program:
        return
    os.environ[check.SWITCH] = "1"
    hostdev.load()
    os.environ[check.REPORTS] = str(told)  # of the processes that the script starts


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


def _collect(told: Path, program: bool) -> Seen:
    """What was found, once all work is done."""
    reports, silent = processes.reports(told)
    if program:
        return Seen(check.merged(reports), silent, not reports and not silent)
    control.finish()
    return Seen(check.merged([check.report(), *reports]), silent, False)


def _as_json(seen: Seen) -> dict[str, Any]:
    return {
        "findings": [finding.as_dict() for finding in seen.report.findings],
        "unchecked": [kernel.as_dict() for kernel in seen.report.unchecked],
        "launches": seen.report.launches,
        "silent_processes": list(seen.silent),
    }


def _told(seen: Seen) -> str:
    lines = [_text(finding) for finding in seen.report.findings]
    lines += [_unchecked(kernel) for kernel in seen.report.unchecked]
    lines += [
        f"process {number} ended without a word (a signal, `_exit`): what it found is not known"
        for number in seen.silent
    ]
    return "\n".join([*lines, _summary(seen)])


def _summary(seen: Seen) -> str:
    found, launches = seen.report.findings, seen.report.launches
    unseen = sum(kernel.launches for kernel in seen.report.unchecked)
    behind = f"; {_launches(unseen)} NOT checked" if unseen else ""
    if seen.nobody:
        return (
            "nothing was checked: no process opened the host device; the program has to find "
            "libcuda.so.1 by the dynamic linker (docs/host-programs.md)"
        )
    if not found and not launches and not unseen:
        return "0 findings: no kernel was launched"
    checked = f"{_launches(launches)} checked{behind}"
    if not found:  # 0 kernels would read as if none had been checked
        return f"0 findings in {checked}"
    kinds = len({finding.kind for finding in found})
    kernels = len({finding.site.kernel for finding in found})
    return (
        f"{counted(len(found), 'finding')} ({counted(kinds, 'kind')}) in "
        f"{counted(kernels, 'kernel')}, {checked}"
    )


def _launches(number: int) -> str:
    return f"{number} launch" + ("" if number == 1 else "es")


def _unchecked(kernel: Unchecked) -> str:
    """Which kernel, and the command that compiles its image with checks."""
    image = kernel.image or "an image that was given as bytes"
    source, target = kernel.source or "FILE.cu", kernel.image or "IMAGE"
    command = shlex.join(["python", "-m", "lowgraph", "compile", "--check", source, "-o", target])
    return (
        f"{kernel.kernel}: {_launches(kernel.launches)} NOT checked: {image} "
        f"has no checks; compile it with them:\n    {command}"
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
