"""What was measured, as the rows of the JSON file, and how cost grows with a graph's size."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from lowgraph.bench.agreement import agree, tolerance
from lowgraph.bench.cases import Case
from lowgraph.bench.measure import Measured
from lowgraph.bench.rows import STRONGEST

__all__ = ["Row", "fits", "rows_of"]

Row = dict[str, Any]

_KEPT = ("nodes", "includes", "memory_bytes", "reserved_bytes", "capture_us", "instantiate_us",
         "upload_us", "update_us", "update_refused", "graph_bytes", "params", "precision",
         "losses")  # fmt: skip
_FITTED = ("host_us", "wall_us", "capture_us", "instantiate_us", "upload_us", "update_us",
           "graph_bytes")  # fmt: skip


def rows_of(case: Case, found: Sequence[Measured]) -> list[Row]:
    """A row an arm. Keys: `us_*` by the case's clock, and what else is known of the arm."""
    ours = found[0]
    rows = []
    for arm in found:
        main = arm.host if case.clock == "host" else arm.wall
        row: Row = {"id": case.row.id, "config": case.config, "who": arm.who, "clock": case.clock}
        row |= {f"us_{name}": value for name, value in _spread(main).items()}
        row |= {"nodes": None, "idle_share": _idle(arm), "size": case.size}
        row |= {"host_us": _spread(arm.host)["median"], "wall_us": _spread(arm.wall)["median"]}
        row |= {name: arm.facts[name] for name in _KEPT if name in arm.facts}
        row |= {"busy_us": arm.trace.get("busy_us"), "device_ops": arm.trace.get("device_ops")}
        row |= {"busy_why": arm.trace.get("why", ""), "burst_steps": arm.steps}
        row |= {"opened_s": round(arm.opened_s, 1)}
        row |= {"wanted_precision": case.row.precision, "error": arm.error}
        row["correct"] = _correct(case, arm, found)
        if arm is ours:
            row |= _goal(case, found) | _memory(found)
        rows.append(row)
    return rows


def fits(rows: Sequence[Row]) -> list[Row]:
    """Least squares of each cost of a chain against its kernels: cost = fixed + per_node * N.

    In microseconds, or bytes for `graph_bytes`. worst: the largest distance from the line.
    """
    chains: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["id"] == "B0" and not row["error"]:
            chains.setdefault((row["id"], row["who"]), []).append(row)
    found = []
    for (name, who), points in chains.items():
        for what in _FITTED:
            pairs = [(p["size"], p[what]) for p in points if p.get(what) is not None]
            if len(pairs) < 2:
                continue
            sizes, costs = np.array(pairs, np.float64).T
            slope, fixed = np.polyfit(sizes, costs, 1)
            worst = float(np.abs(fixed + slope * sizes - costs).max())
            line = {"fixed": float(fixed), "per_node": float(slope), "worst": worst}
            found.append({"id": name, "who": who, "what": what, "points": len(pairs), **line})
    return found


def _spread(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return dict.fromkeys(("median", "min", "max"))
    figures = statistics.median(values), min(values), max(values)
    return dict(zip(("median", "min", "max"), (round(f, 3) for f in figures), strict=True))


def _idle(arm: Measured) -> float | None:
    """Share of the wall's time in which no operation ran; busy time is of a traced run."""
    busy = arm.trace.get("busy_us")
    if busy is None or not arm.wall:
        return None
    return round(max(0.0, 1.0 - busy / statistics.median(arm.wall)), 4)


def _correct(case: Case, arm: Measured, found: Sequence[Measured]) -> bool | None:
    """Whether the arm's losses agree with ours, and ours with every rival's; None: none to ask."""
    others = found[1:] if arm is found[0] else found[:1]
    asked = [other for other in others if other.facts.get("losses")]
    if not arm.facts.get("losses") or not asked:
        return None
    return all(
        agree(arm.facts["losses"], other.facts["losses"], _allowed(case, arm, other))
        for other in asked
    )


def _allowed(case: Case, arm: Measured, other: Measured) -> float:
    if case.row.kind == "update":
        # Movements of a few rates: each parameter's is rounded at 2^-25 beside a step of 1e-3, and
        # the mean over a hundred thousand of them much less.
        return 1e-4
    return tolerance(arm.facts.get("precision"), other.facts.get("precision"))


def _memory(found: Sequence[Measured]) -> Row:
    """Whether we take no more memory than the strongest rival, where both are known."""
    ours = found[0].facts.get("memory_bytes")
    theirs = [arm.facts.get("memory_bytes") for arm in found if arm.who == STRONGEST]
    if ours is None or not theirs or theirs[0] is None:
        return {}
    return {"memory_of_strongest": theirs[0], "memory_met": ours <= theirs[0]}


def _goal(case: Case, found: Sequence[Measured]) -> Row:
    """Our goal on a GPU, and whether it was met; the chain's is above the bare call's time."""
    goal, ours = case.row.goal_us, found[0]
    if goal is None or not ours.wall or case.spec["kind_of_device"] == "host":
        return {}
    if case.row.kind != "chain":
        return {"goal_us": goal, "goal_met": statistics.median(ours.wall) <= goal}
    bare = found[1].host if len(found) > 1 else []
    if len(bare) != len(ours.host):
        return {"goal_us": goal, "goal_met": None}
    extra = statistics.median(a - b for a, b in zip(ours.host, bare, strict=True))
    return {"goal_us": goal, "extra_us": round(extra, 3), "goal_met": extra <= goal}
