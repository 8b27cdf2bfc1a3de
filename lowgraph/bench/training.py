"""lowgraph's arm of a train row: the trainer's own parts, stepped as the trainer steps them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lowgraph import driver
from lowgraph.bench.data import BATCHES, dataset, plan_of
from lowgraph.bench.rows import ROWS
from lowgraph.bench.timing import StepArm, graph_costs
from lowgraph.errors import LowgraphError
from lowgraph.train.parts import Parts
from lowgraph.train.plan import Plan

__all__ = ["open_training"]

_RING_SLOTS = 64


def open_training(spec: Mapping[str, Any]) -> dict[str, StepArm]:
    """The arm of `spec`: warm, captured, with the losses of its first BATCHES steps."""
    row = replace(ROWS[spec["row"]], precision=spec["precision"])
    device = driver.open_device(spec["device"])
    plan = plan_of(row, row.sizes[device.kind])
    parts = _parts(device, plan)
    parts.log.begin(0)
    parts.advance()  # primes
    begin = time.perf_counter()
    parts.graph_step.capture()
    capture = (time.perf_counter() - begin) * 1e6
    for _ in range(BATCHES - 1):
        parts.advance()
    parts.log.lap(BATCHES)
    losses = [loss for lap in parts.log.finish() for loss in lap.losses]
    report = parts.graph_step.report()
    graph = parts.graph_step.graph
    if graph is None:
        raise LowgraphError(f"the step has no graph: {report.why_no_graph}")
    facts = {
        "losses": losses, "nodes": report.nodes, "capture_us": round(capture, 1),
        **graph_costs(graph), "memory_bytes": report.pool_bytes,
        "precision": plan.precision, "params": parts.model.parameter_count,
        "includes": (
            "batch drawn by the step, forward, loss, backward, gradient norm, "
            f"{row.optimizer}, loss ring; one graph launch"
        ),
    }  # fmt: skip
    return {"lowgraph": StepArm(parts.advance, parts.stream, facts, device.kind)}


def _parts(device: driver.Device, plan: Plan) -> Parts:
    return Parts(device, plan, dataset(plan), graph=True, ring_slots=_RING_SLOTS)
