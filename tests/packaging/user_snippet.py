"""What a user writes, for mypy: it is checked, never run. Each ignore has to be needed."""

from __future__ import annotations

from pathlib import Path

from typing_extensions import assert_type

from lowgraph import (
    GraphStep,
    Kernel,
    Library,
    PersistentPool,
    Slice,
    StepReport,
    interop,
    open_device,
)
from lowgraph.capture import Census, CopyIn, ForeignMemory, GraphPart, Input
from lowgraph.driver import stream as streams
from lowgraph.errors import InputMoved

device = open_device("auto")
library, pool, stream = Library(device), PersistentPool(device), streams.create()
kernel = library.kernel(Path("own.cu"), "own")
assert_type(kernel, Kernel)
assert_type(stream, int)


class Theirs:
    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, stream


def body(on: int) -> None:
    sums = pool.take("sums", (10,))
    assert_type(sums, Slice)
    kernel(on, 1, 256, sums, weights, 0.5, 10)


weights = CopyIn("weights", lambda: interop.ForeignBuffer(4096, 40, owner=library))
step = GraphStep(body, device=device, pool=pool, stream=Theirs(), library=library, pins=[weights],
                 inputs=[Input("x", pool.take("x", 10))])  # fmt: skip
try:
    step()
except InputMoved as error:
    assert_type(error.name, str)
assert_type(step.report(), StepReport)
assert_type(step.report().replays, int)
assert_type(interop.raw_graph(step).executable, int)
assert_type(interop.foreign_memory(object(), stream=Theirs()), ForeignMemory)
with GraphPart(body, device=device, pool=pool, library=library) as part:
    assert_type(part.record(stream), Census)

GraphStep(body, device="host", pool=pool, stream=stream)  # type: ignore[arg-type]
GraphStep(body, device=device, pool=pool, stream="mine")  # type: ignore[arg-type]
GraphStep(body, device=device, pool=pool, stream=stream, plans=1)  # type: ignore[call-arg]
GraphStep(lambda: None, device=device, pool=pool, stream=stream)  # type: ignore[arg-type,misc]
interop.add_child(step, step)  # type: ignore[arg-type]
pool.taek("x", (10,))  # type: ignore[attr-defined]
