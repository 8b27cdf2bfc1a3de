"""The graph of 5_c_program.c: recorded here, launched from C by its handle."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lowgraph import GraphStep, Library, PersistentPool, open_device
from lowgraph.driver import stream as streams
from lowgraph.memory import upload

N = 1000
_steps: list[GraphStep] = []  # kept until the program is done with the handles


def record(spec: str) -> tuple[int, int, int]:
    """Run one step and record the next; its CUgraphExec, its CUstream, and the address of y."""
    device = open_device(spec)
    library, pool, stream = Library(device), PersistentPool(device), streams.create()
    leaky_sum = library.kernel(Path(__file__).parents[1] / "own_kernel.cu", "leaky_sum")
    x, y = pool.take("x", N), pool.take("y", N)
    upload(x, np.ones(N, np.float32), stream)
    upload(y, np.zeros(N, np.float32), stream)
    step = GraphStep(
        lambda s: leaky_sum(s, 4, 256, y, x, 0.5, N),
        device=device, pool=pool, library=library, stream=stream, label="for C",
    )  # fmt: skip
    _steps.append(step)
    step.prime()
    step.capture()
    assert step.graph is not None, step.report().why_no_graph
    return step.graph.raw_executable, stream, y.address


def close() -> None:
    """Destroy the graph: the program has waited for its last launch."""
    while _steps:
        _steps.pop().close()
