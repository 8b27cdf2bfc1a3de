"""Runs a script of tests/hostdev/checks in the check build, and reads what its kernels expect."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.process import run_command

CHECKS = Path(__file__).parent / "checks"

_KERNEL = re.compile(r'extern "C" __global__ void (\w+)\(')
_BUG = re.compile(r"(?://|;) BUG (\S+) ([^;]+)")


@dataclass(frozen=True)
class Run:
    """A finished `python -m lowgraph check`: its exit code, its output, the JSON's findings."""

    code: int
    out: str
    err: str
    findings: list[dict[str, Any]]

    def of(self, kernel: str) -> list[dict[str, Any]]:
        """The findings in a kernel."""
        return [found for found in self.findings if found["kernel"] == kernel]


def run_python(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run this Python in the checkout."""
    return run_command(*words, timeout=900, **variables)


def run_check(folder: Path, script: Path, *words: str, **variables: str) -> Run:
    """Run the command on a script with its findings as JSON in `folder`."""
    report = folder / "findings.json"
    done = run_python(
        "-m", "lowgraph", "check", str(script), *words, "--json", str(report), **variables
    )
    findings = json.loads(report.read_text())["findings"] if report.exists() else []
    return Run(done.returncode, done.stdout, done.stderr, findings)


def expected(source: Path) -> dict[str, list[tuple[int, str, str | None]]]:
    """By kernel, the (line, kind, memory) of the bugs that its comments name."""
    bugs: dict[str, list[tuple[int, str, str | None]]] = {}
    kernel = ""
    for number, line in enumerate(source.read_text().splitlines(), 1):
        if begins := _KERNEL.search(line):
            kernel = begins[1]
            bugs[kernel] = []
        for marked in _BUG.finditer(line):
            bugs[kernel].append((number, marked[1], None if marked[2] == "None" else marked[2]))
    return bugs
