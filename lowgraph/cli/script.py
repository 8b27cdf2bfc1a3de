"""The user's script that a command runs: found, checked, given its arguments, and its end told."""

from __future__ import annotations

import argparse
import runpy
import shutil
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from lowgraph.cli.outcome import FAILED
from lowgraph.driver.callers import working_folder
from lowgraph.errors import ConfigError

__all__ = [
    "Script",
    "add_script",
    "exit_code_of",
    "program_of",
    "reporting",
    "run_script",
    "script_of",
    "show_error",
]


@dataclass(frozen=True)
class Script:
    """What to run, and from which folder: a script may go to another one.

    json: the file of --json, wherever that stood; None without one.
    """

    path: Path
    arguments: list[str]
    json: Path | None
    folder: str


def add_script(parser: argparse.ArgumentParser, flags: str = "") -> None:
    """Add --json, the script and its arguments. flags: the command's others, for the usage line."""
    parser.usage = f"%(prog)s [-h] {flags}[--json F] SCRIPT [ARGS ...] [--json F]"
    parser.add_argument("--json", metavar="F", help="write the findings to this file")
    # One list for both: of two, the script's name would swallow a -- behind it.
    parser.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="SCRIPT [ARGS ...]",
        help="the Python file to run, and its arguments; a --json among them is the command's, "
        "unless a -- comes before it",
    )


def script_of(given: argparse.Namespace, command: str) -> Script:
    """The script that was named. Raises ConfigError for none, no Python, or no place for --json."""
    if not given.words:
        raise ConfigError(f"name the Python script to {command}: {command} SCRIPT [ARGS ...]")
    name, *rest = given.words
    script = Path(name)
    if not script.is_file():
        raise ConfigError(f"{name}: no such file; name the Python script to {command}")
    if script.suffix in (".cu", ".cuh"):
        raise ConfigError(f"{name}: name the Python script that launches its kernels")
    _check_python(script, command)
    return _script(script, rest, given.json)


def program_of(given: argparse.Namespace, command: str) -> Script:
    """The program that was named, as a path or to be found on $PATH; its arguments as a script's.

    Raises ConfigError for none, one that is not there or not executable, no place for --json.
    """
    if not given.words:
        raise ConfigError(f"name the program to {command}: {command} --exec PROGRAM [ARGS ...]")
    name, *rest = given.words
    found = shutil.which(name)
    if found is None:
        raise ConfigError(
            f"{name}: no such program; give its path, as ./{name}, or a name that $PATH has"
        )
    return _script(Path(found).absolute(), rest, given.json)


def _script(path: Path, words: Sequence[str], json: str | None) -> Script:
    arguments, report = _split(words, json)
    if report == "":
        raise ConfigError("--json: the path is empty")
    out = None if report is None else Path(report)
    if out is not None and not out.parent.is_dir():  # else a long run would end with this
        raise ConfigError(f"--json {out}: {out.parent} is no folder")
    if out is not None and out.is_dir():
        raise ConfigError(f"--json {out}: it is a folder, name a file")
    return Script(path, arguments, out and out.absolute(), working_folder())


def run_script(script: Script) -> dict[str, Any]:
    """Run it as __main__ in this process; returns its globals. Raises what it raises."""
    sys.argv = [str(script.path), *script.arguments]
    sys.path[0] = str(script.path.resolve().parent)
    return runpy.run_path(str(script.path), run_name="__main__")


@contextmanager
def reporting(out: TextIO | None) -> Iterator[None]:
    """Let the block print where the command prints, whatever the script has made of sys.stdout.

    out: what that was before the script ran; stderr takes its place where it is closed.
    """
    with suppress(Exception):  # an object of the script's own
        sys.stdout.flush()
    with redirect_stdout(sys.stderr if out is None or out.closed else out):
        yield
        sys.stdout.flush()


def exit_code_of(ended: SystemExit) -> int:
    """As Python's own: None is success, a text is printed and means failure."""
    code = ended.code
    if code is None or isinstance(code, int):
        return int(code or 0)
    print(code, file=sys.stderr)
    return FAILED


def show_error(error: BaseException, script: Script) -> None:
    """Print what the script raised as Python would, without the frames of who ran it."""
    name = str(script.path)
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != name:
        trace = trace.tb_next
    hook: Callable[..., Any] = sys.excepthook
    shown = error.with_traceback(trace or error.__traceback__)
    hook(type(shown), shown, shown.__traceback__)


def _check_python(script: Path, command: str) -> None:
    """Refuse what Python cannot read before a device is asked for: a page of text, say."""
    other = f", or any program: {command} --exec {script}" if command == "check" else ""
    if script.suffix == ".pyc" or zipfile.is_zipfile(script):  # which run too
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the run gives them
            compile(script.read_bytes(), str(script), "exec")
    except (SyntaxError, ValueError, OSError) as error:
        raise ConfigError(
            f"{script} cannot be read as Python: {error}; name the Python script to {command}"
            + other
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
