"""The host device is quick enough: benchmarks/host_device.py against the goals of its page.

Processor time is held, not the wall clock: other processes take less of it away. The goals are
wall-clock times on two cores, on which work may have used twice as much; and a machine of half the
speed, which CI has met, still keeps that: the page's figures are below half of each limit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.atlas.clocks import not_shuffled
from tests.train.runs import ROOT

pytestmark = [pytest.mark.host, not_shuffled]
CORES = 2
GOALS = {"launch": 5.0, "graph node": 1.0, "step of nano": 60.0, "step of tiny": 1000.0}
"""In the rows' units, us and ms. A node of a graph: a launch without Python and the queue."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """The benchmark's rows by what they measure; in a process of its own, whose time is its own."""
    file = tmp_path_factory.mktemp("speed") / "rows.json"
    command = [sys.executable, "benchmarks/host_device.py", "--only", "launch", "step"]
    subprocess.run(
        [*command, "--rounds", "10", "--json", str(file)], cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True, timeout=280,
    )  # fmt: skip
    return {row["what"]: row for row in json.loads(file.read_text(encoding="utf-8"))["rows"]}


@pytest.mark.parametrize("what", GOALS)
def test_the_least_of_ten_rounds_keeps_the_goal(
    rows: dict[str, dict[str, float]], what: str
) -> None:
    assert rows[what]["cpu_min"] < CORES * GOALS[what], rows[what]


def test_the_goals_are_those_of_the_page() -> None:
    page = Path(ROOT, "docs/host-device.md").read_text(encoding="utf-8")
    for row in (
        "| a launch from Python, queued and run | 5 us |",
        "| a kernel of one thread as node of a replayed graph | 1 us |",
        "| training step, preset `nano` (69 kernels), replayed | 60 ms |",
        "| training step, preset `tiny`, replayed | 1 s |",
    ):
        assert row in page
