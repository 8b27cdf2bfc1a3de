"""Figures that the pages quote are those of the recorded runs that they name."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.packaging.tree import ROOT

RESULTS = ROOT / "benchmarks" / "results" / "h200"
README = (ROOT / "README.md").read_text(encoding="utf-8")
# README's rows by the benchmark's names, and its columns by the arms; of JAX the better one.
ROWS = {"`mlp`": "B1", "transformer `tiny`": "B2t", "transformer `small`": "B2s",
        "Mamba-2 `perception`": "B3", "GPT-2's shape": "B6"}  # fmt: skip
ARMS = (
    ("torch eager",),
    ("torch.compile reduce-overhead",),
    ("jax.jit", "jax.jit with cuDNN attention"),
    ("torch GX",),
    ("lowgraph",),
)
UPDATES = {
    "`cuGraphExecUpdate`": "update",
    "`cuGraphExecKernelNodeSetParams`, every node": "set each node",
    "a fresh executable": "instantiate",
    "`set_params` (with our record), every node": "set_params",
    "`recapture()`: priming, recording, update": "recapture",
}


def _result(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _row(page: str, label: str) -> list[str]:
    """The cells behind the first one of the table row that begins with the label."""
    found = re.search(rf"^\| {re.escape(label)}[^|]*\|(.*)\|$", page, re.MULTILINE)
    assert found is not None, label
    return [cell.strip().strip("*").replace(" ", "") for cell in found[1].split("|")]


@pytest.mark.parametrize("label", ROWS)
def test_readmes_table_is_the_benchmarks(label: str) -> None:
    rows = [row for row in _result("bench")["rows"] if row["id"] == ROWS[label]]
    medians = {row["who"]: row["us_median"] for row in rows}
    best = [min((medians[who] for who in arm if who in medians), default=None) for arm in ARMS]
    assert _row(README, label) == ["" if us is None else f"{us:.0f}" for us in best]


def test_readmes_step_of_nano_is_the_trainers() -> None:
    runs = sorted(RESULTS.glob("train_nano_no_graph*.json"))
    plain = [json.loads(run.read_text(encoding="utf-8"))["step_us"] / 1000 for run in runs]
    newest = _result("train_nano_no_graph")["step_us"] / 1000
    graphed = _result("train_nano")
    words = " ".join(README.split())
    assert f"{graphed['nodes']} kernels on the H200" in words
    assert f"takes {newest:.2f} ms launched kernel by kernel" in words
    assert f"**{graphed['step_us'] / 1000:.3f} ms as one graph launch**" in words
    assert f"({min(plain):.1f} to {max(plain):.1f} ms in {len(plain)} runs)" in words


def test_readmes_price_of_a_call_is_measured() -> None:
    above = [
        row["extra_us"]
        for row in _result("bench")["rows"]
        if (row["id"], row["who"]) == ("B0", "lowgraph") and row["nodes"] <= 5000
    ]
    checked = [
        row["extra_us"]
        for run in RESULTS.glob("step_overhead*.json")
        for row in json.loads(run.read_text(encoding="utf-8"))["rows"]
        if row["what"] == "step() with an input"
    ]
    words = " ".join(README.split())
    assert f"costs {min(above):.1f} to {max(above):.1f} us more than a bare" in words
    assert f"and {min(checked):.1f} to {max(checked):.1f} us more with a checked input" in words


def test_the_page_on_recapture_has_the_costs_of_updates() -> None:
    page = (ROOT / "docs" / "recapture.md").read_text(encoding="utf-8")
    found = _result("update_costs")
    assert f"commit {found['commit'][:7]}" in page
    costs = {(row["what"], row["nodes"]): row["us_per_node"] for row in found["rows"]}
    for label, what in UPDATES.items():
        wanted = [f"{costs[what, nodes]:.2f}" for nodes in (10, 100, 1000, 20000)]
        assert _row(page, label) == wanted, label
