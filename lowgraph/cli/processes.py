"""Programs under `python -m lowgraph check`: their environment, and what each process tells.

A process that checks writes a file, named by its number, into the folder that the environment names
(hostdev/src/check_report.cpp); so does every process that it starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lowgraph.cli.script import Script
from lowgraph.errors import ConfigError
from lowgraph.hostdev import build, check
from lowgraph.hostdev.check import Report

__all__ = ["reports", "run", "told_of"]

_SIGNALLED = 128  # and the signal's number: what a shell gives


@contextmanager
def told_of() -> Iterator[Path]:
    """Yield a folder for the reports of processes; it goes with the block."""
    with tempfile.TemporaryDirectory(prefix="lowgraph-check-") as folder:
        yield Path(folder)


def run(program: Script, told: Path) -> int:
    """Run a program with checks on; returns its exit code. Raises BuildError, ConfigError."""
    folders = [str(build.link_folder()), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    given = {
        **os.environ,
        "LD_LIBRARY_PATH": os.pathsep.join(folders),
        check.SWITCH: "1",
        check.REPORTS: str(told),
    }
    sys.stdout.flush()
    try:
        done = subprocess.run([str(program.path), *program.arguments], env=given, check=False)
    except OSError as error:
        raise ConfigError(f"{program.path} does not run: {error.strerror or error}") from error
    return done.returncode if done.returncode >= 0 else _SIGNALLED - done.returncode


def reports(told: Path) -> tuple[list[Report], tuple[int, ...]]:
    """Return what the processes told, this one left out, and which ended without telling."""
    found: list[Report] = []
    silent: list[int] = []
    for file in sorted(told.iterdir(), key=lambda file: int(file.name)):
        if int(file.name) == os.getpid():
            continue
        report = check.of_process(file.read_text(errors="replace"))
        if report is None:
            silent.append(int(file.name))
        else:
            found.append(report)
    return found, tuple(silent)
