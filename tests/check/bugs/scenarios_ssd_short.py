"""The scenario of a state space layer whose sequences one block makes by itself."""

from __future__ import annotations

from typing import Any

from lowgraph.ops import Ssd
from lowgraph.ops.ssd_tensors import SsdInputs, SsdSaved, SsdSizes, SsdWorkspace
from tests.check.bugs.bench import Bench, Check
from tests.check.bugs.registry import close, scenario
from tests.check.bugs.sources import library
from tests.ops import twins_mamba as twins
from tests.ops.compare import normal, wide

SIZES = SsdSizes(2, 45, 2, 12, 40)  # rows of whole quads: they come by asynchronous copies
GRADIENTS = ("dx", "draw", "ddt_bias", "da_log", "db", "dc", "dd")  # in the order of SsdInputs


@scenario
def ssd_one_block(bench: Bench, fault: str) -> list[Check]:
    """Forward and backward."""
    batch, length, heads, size, state = SIZES
    shapes = [(batch, length, heads, size), (batch, length, heads), (heads,), (heads,),
              (batch, length, state), (batch, length, state), (heads,)]  # fmt: skip
    arrays, dy = [normal(n, *shape) for n, shape in enumerate(shapes)], normal(9, *shapes[0])
    layer, y = Ssd(library(bench)), bench.empty(shapes[0], name="y")
    inputs = SsdInputs(*(bench.put(array) for array in arrays))
    saved = SsdSaved(*(bench.empty(shape) for shape in Ssd.saved_shapes(SIZES)))
    space = SsdWorkspace(*(bench.empty(shape) for shape in Ssd.workspace_shapes(SIZES)))
    grads = [bench.empty(a.shape, name=n) for n, a in zip(GRADIENTS, arrays, strict=True)]
    device_dy = bench.put(dy, "dy")
    layer.forward(bench.stream, y, saved, inputs, SIZES)
    layer.backward(bench.stream, SsdInputs(*grads), space, device_dy, inputs, saved, SIZES)
    want = twins.ssd_backward(*wide(dy, *arrays))
    pairs: dict[str, Any] = {grad.name: (grad, want[grad.name]) for grad in grads}
    return close(bench, y=(y, twins.ssd_forward(*wide(*arrays))), **pairs)
