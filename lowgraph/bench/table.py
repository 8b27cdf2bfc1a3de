"""The rows for people: one line an arm, a block a case."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from lowgraph.bench.rows import STRONGEST

__all__ = ["text"]

_HEAD = ("who", "us", "min", "max", "host us", "wall us", "nodes", "ops", "idle", "MiB", "correct")


def text(rows: Sequence[dict[str, Any]], fits: Sequence[dict[str, Any]]) -> str:
    """The table, the goals, and how cost grows."""
    lines: list[str] = []
    for (name, config), block in groupby(rows, key=lambda row: (row["id"], row["config"])):
        group = list(block)
        lines += ["", f"{name}  {config}  (us: the {group[0]['clock']}'s, median of a step)"]
        lines += _aligned([_HEAD, *(_cells(row) for row in group)])
        lines += [line for row in group for line in _notes(row)]
    if fits:
        lines += ["", "growth with the number of kernels N, by least squares:"]
        lines += [_growth(fit) for fit in fits]
    return "\n".join(lines[1:])


def _growth(fit: dict[str, Any]) -> str:
    unit = "bytes" if fit["what"].endswith("bytes") else "us"
    return (
        f"  {fit['who']}, {fit['what']}: {fit['fixed']:.2f} + {fit['per_node']:.5f} N {unit}"
        f" (worst point {fit['worst']:.1f} off)"
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    memory = row.get("memory_bytes")
    idle = row["idle_share"]
    return (
        row["who"],
        *(_number(row[key]) for key in ("us_median", "us_min", "us_max", "host_us", "wall_us")),
        _number(row.get("nodes"), 0),
        _number(row.get("device_ops"), 0),
        "-" if idle is None else f"{idle:.0%}",
        "-" if memory is None else f"{memory / 2**20:.1f}",
        {True: "yes", False: "NO", None: "-"}[row["correct"]],
    )


def _notes(row: dict[str, Any]) -> list[str]:
    notes = []
    if row["error"]:
        notes.append(f"  {row['who']}: failed: {' '.join(row['error'].split())}")
    if row.get("includes"):
        notes.append(f"  {row['who']}: {row['includes']}")
    ran = row.get("precision")
    if ran is not None and ran != row["wanted_precision"]:
        notes.append(f"  {row['who']}: ran in {ran}; the row wants {row['wanted_precision']}")
    if "goal_us" in row:
        met = {True: "met", False: "not met", None: "unknown"}[row["goal_met"]]
        above = f", {row['extra_us']} above the bare call" if "extra_us" in row else ""
        notes.append(f"  goal {row['goal_us']:g} us: {met}{above}")
    if "memory_met" in row:
        met = "no more" if row["memory_met"] else "MORE"
        notes.append(f"  memory: {met} than {STRONGEST}")
    return notes


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  " + "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]  # fmt: skip
