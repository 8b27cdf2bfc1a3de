"""`python -m lowgraph check`: a script on the host device, every memory access of its kernels seen.

Exit code: 1 if anything was found, 2 for bad input, else the script's own.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import traceback
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path

from lowgraph import hostdev
from lowgraph.cli.outcome import FAILED
from lowgraph.errors import ConfigError, DeviceUnavailable
from lowgraph.hostdev import check, control
from lowgraph.hostdev.check import Finding, Site
from lowgraph.memory import counted
from lowgraph.train.result import write_json

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY = "run a script on the host device and report what its kernels do wrong; exit 1 if anything"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.usage = "%(prog)s [-h] [--json F] SCRIPT [ARGS ...] [--json F]"
    parser.add_argument("--json", metavar="F", help="write the findings to this file")
    # One list for both: of two, the script's name would swallow a -- behind it.
    parser.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="SCRIPT [ARGS ...]",
        help="the Python file to run, and its arguments; a --json among them is the command's, "
        "unless a -- comes before it",
    )


def run(given: argparse.Namespace) -> None:
    """Run the script, print what was found; ends with SystemExit unless all is well."""
    if not given.words:
        raise ConfigError("name the Python script to check: check SCRIPT [ARGS ...]")
    name, *rest = given.words
    script = Path(name)
    if not script.is_file():
        raise ConfigError(f"{name}: no such file; name the Python script to check")
    if script.suffix in (".cu", ".cuh"):
        raise ConfigError(f"{name}: name the Python script that launches its kernels")
    _check_python(script)
    arguments, path = _split(rest, given.json)
    if path == "":
        raise ConfigError("--json: the path is empty")
    out = None if path is None else Path(path)
    _ask_for_checks()
    try:
        code = _run_script(script, arguments)
    finally:
        found = _collect()
        for finding in found:
            print(_text(finding))
        print(_summary(found), flush=True)
        if out is not None:
            write_json(out, {"findings": [finding.as_dict() for finding in found]})
    if found or code:
        raise SystemExit(FAILED if found else code)


def _check_python(script: Path) -> None:
    """Refuse what Python cannot read before a device is asked for: a page of text, say."""
    if script.suffix == ".pyc" or zipfile.is_zipfile(script):  # which run too
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the run gives them
            compile(script.read_bytes(), str(script), "exec")
    except (SyntaxError, ValueError, OSError) as error:
        raise ConfigError(
            f"{script} cannot be read as Python: {error}; name the Python script to check"
        ) from error


def _split(arguments: Sequence[str], path: str | None) -> tuple[list[str], str | None]:
    """The script's arguments, and the file of --json."""
    own, marker, rest = _partition(list(arguments))
    kept: list[str] = []
    words = iter(own)
    for word in words:
        if word == "--json":
            path = next(words, None)
            if path is None:
                raise ConfigError("--json needs a file: --json F")
        elif word.startswith("--json="):
            path = word.removeprefix("--json=")
        else:
            kept.append(word)
    return kept + (rest if marker else []), path


def _partition(words: list[str]) -> tuple[list[str], bool, list[str]]:
    if "--" not in words:
        return words, False, []
    at = words.index("--")
    return words[:at], True, words[at + 1 :]


def _ask_for_checks() -> None:
    """Before the host device is loaded, which reads it once."""
    if hostdev.is_loaded() and not check.enabled():
        raise DeviceUnavailable("this process has the host device open, without checks")
    os.environ[check.SWITCH] = "1"
    check.kernel_seconds()  # refuses a wrong limit now, and not in the script


def _run_script(script: Path, arguments: Sequence[str]) -> int:
    """Its exit code. What it raised is shown, but passed on if the device it asked for is why."""
    sys.argv = [str(script), *arguments]
    sys.path[0] = str(script.resolve().parent)
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as ended:
        return _exit_code(ended.code)
    except (DeviceUnavailable, KeyboardInterrupt):
        raise
    except Exception:
        traceback.print_exc()
        return FAILED
    return 0


def _exit_code(code: object) -> int:
    """As Python's own: None is success, a text is printed and means failure."""
    if code is None or isinstance(code, int):
        return int(code or 0)
    print(code, file=sys.stderr)
    return FAILED


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
    lines = [f"{_place(finding.site)}: {finding.kind}: {finding.text}", f"    {_who(finding.site)}"]
    if finding.other is not None:
        lines.append(f"    other side: {_place(finding.other)}: {_who(finding.other)}")
    if finding.allocation is not None:
        lines.append(f"    memory: {finding.allocation}")
    if finding.count > 1:
        lines.append(f"    seen {finding.count} times")
    return "\n".join(lines)


def _place(site: Site) -> str:
    """file:line, from the current folder where the file is below it."""
    if site.file is None:
        return "unknown place"
    path = Path(site.file)
    here = Path.cwd()
    return f"{path.relative_to(here) if path.is_relative_to(here) else path}:{site.line}"


def _who(site: Site) -> str:
    if site.block is None or site.thread is None:
        return site.kernel or "unknown"
    return f"kernel {site.kernel}, block {_index(site.block)}, thread {_index(site.thread)}"


def _index(index: tuple[int, int, int]) -> str:
    return "(" + ",".join(map(str, index)) + ")"
