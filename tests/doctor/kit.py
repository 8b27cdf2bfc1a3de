"""Runs a script of tests/doctor/scripts by the command, and reads what it reports."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.process import run_command

SCRIPTS = Path(__file__).parent / "scripts"


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
    done = run_command(*command, given=given, **variables)
    report = json.loads(path.read_text()) if path.exists() else {}
    return Run(done.returncode, done.stdout, done.stderr, report)


def line(script: str, mark: str) -> str:
    """file:line of a comment in a script."""
    path = SCRIPTS / script
    lines = path.read_text().splitlines()
    (number,) = (n for n, text in enumerate(lines, 1) if text.endswith(f"# {mark}"))
    return f"{path}:{number}"
