"""Runs a script of tests/doctor/scripts by the command, and reads what it reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parent / "scripts"
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Run:
    """A finished `python -m lowgraph doctor`: its exit code, its output, the JSON ({} if none)."""

    code: int
    out: str
    err: str
    report: dict[str, Any]

    def of(self, key: str, label: str) -> list[dict[str, Any]]:
        """The entries of one list of the report that are of that label, capture or graph."""
        named = ("label", "capture", "graph")
        return [one for one in self.report[key] if label in (one.get(name) for name in named)]


def run_python(*words: str, given: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run this Python in the checkout, with a text on its standard input."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        input=given,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def run_doctor(
    folder: Path,
    script: Path | str,
    *words: str,
    flags: tuple[str, ...] = (),
    given: str = "",
    **variables: str,
) -> Run:
    """Run the command on a script with its report as JSON in `folder`."""
    path = folder / "report.json"
    command = ("-m", "lowgraph", "doctor", *flags, str(script), *words, "--json", str(path))
    done = run_python(*command, given=given, **variables)
    report = json.loads(path.read_text()) if path.exists() else {}
    return Run(done.returncode, done.stdout, done.stderr, report)


def line(script: str, mark: str) -> str:
    """file:line of a comment in a script."""
    path = SCRIPTS / script
    lines = path.read_text().splitlines()
    (number,) = (n for n, text in enumerate(lines, 1) if text.endswith(f"# {mark}"))
    return f"{path}:{number}"
