"""tools/bench_picture.py: README's picture and the table, from a file of `bench --json`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.tree import ROOT

pytestmark = pytest.mark.host


def row(name: str, who: str, us: float | None, **known: Any) -> dict[str, Any]:
    found = {
        "id": name, "config": f"model of {name}: width 7", "who": who, "clock": "wall",
        "us_median": us, "us_min": us, "us_max": us, "nodes": None, "idle_share": None,
        "wanted_precision": "bf16",
    }  # fmt: skip
    return found | known


ROWS = [
    row("B0", "lowgraph", 3.0, clock="host"),
    row("B2t", "lowgraph", 149.6, nodes=57, idle_share=0.25),
    row("B2t", "torch eager", 5700.4),
    row("B2t", "torch GX", 370.0),
    row("B2t", "jax.jit", 572.0),
    row("B2t", "jax.jit with cuDNN attention", 560.0),
    row("B7", "lowgraph", 843.0, nodes=2),
    row("B7", "torch GX", None),
]
ORIGIN = {"gpu": "a card", "versions": {"torch": "9.9"}, "time": "2026-11-30T00:00:00Z",
          "commit": "0123456789abcdef"}  # fmt: skip


def draw(folder: Path, rows: list[dict[str, Any]] | None) -> subprocess.CompletedProcess[str]:
    file = folder / "bench.json"
    if rows is not None:
        file.write_text(json.dumps({**ORIGIN, "rows": rows}))
    command = [sys.executable, "tools/bench_picture.py", str(file), "--out", str(folder / "b.png")]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_picture_and_the_table(tmp_path: Path) -> None:
    done = draw(tmp_path, ROWS)
    assert done.returncode == 0, done.stderr
    picture = (tmp_path / "b.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    head, rule, *lines = done.stdout.splitlines()
    assert head.count("|") == rule.count("|") == lines[0].count("|")
    assert lines == [
        "| B2t | model of B2t, bf16 | 5,700 | – | 560 | 370 | 150 | 150 | 57 | 25% |",
        "| B7 | model of B7, bf16 | – | – | – | – | 843 | 950 | 2 | – |",
    ]
    again = draw(tmp_path, ROWS[:-2])
    assert again.returncode == 0
    assert (tmp_path / "b.png").read_bytes() != picture, "a row more is seen"


@pytest.mark.parametrize(
    ("rows", "words"),
    [(None, "tools/on_device.sh"), (ROWS[:1], "python -m lowgraph bench")],
)
def test_nothing_to_draw_says_what_to_run(
    tmp_path: Path, rows: list[dict[str, Any]] | None, words: str
) -> None:
    done = draw(tmp_path, rows)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert words in line
    assert not (tmp_path / "b.png").exists()
