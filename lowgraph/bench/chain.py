"""B0: a chain of empty kernels as a step of ours, and as one bare call of the bindings."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cuda.bindings import driver as cu

from lowgraph import driver
from lowgraph.bench.timing import StepArm, graph_costs
from lowgraph.capture import GraphStep
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool

__all__ = ["BARE", "open_chain"]

BARE = "bare cuGraphLaunch"


def open_chain(spec: Mapping[str, Any]) -> dict[str, StepArm]:
    """Both arms over one executable: what differs is the host's part alone."""
    device = driver.open_device(spec["device"])
    stream, pool, library = driver.stream.create(), PersistentPool(device), Library(device)
    nothing = library.kernel(Path(spec["kernels"]), "nothing")

    def body(stream: int) -> None:
        for _ in range(spec["count"]):
            nothing(stream, 1, 1)

    step = GraphStep(
        body, device=device, pool=pool, library=library, stream=stream, journal="light"
    )
    step.prime()
    begin = time.perf_counter()
    step.capture()
    capture = round((time.perf_counter() - begin) * 1e6, 1)
    graph = step.graph
    assert graph is not None, step.report().text()
    step()
    driver.stream.synchronize(stream)
    report = step.report()
    common = {"nodes": report.nodes, "loss": None, "precision": None}
    ours = {
        **common, "capture_us": capture, **graph_costs(graph),
        "memory_bytes": report.pool_bytes,
        "includes": "step() of a GraphStep: phase and fault checks, one cuGraphLaunch",
    }  # fmt: skip
    assert graph._handles is not None
    handles = cu.CUgraphExec(graph._handles.executable), cu.CUstream(stream)
    launch = cu.cuGraphLaunch
    theirs = {**common, "includes": "cuGraphLaunch of cuda-bindings, handles converted before"}
    return {
        "lowgraph": StepArm(step, stream, ours, device.kind),
        BARE: StepArm(lambda: launch(*handles), stream, theirs, device.kind),
    }
