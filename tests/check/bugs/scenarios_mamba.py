"""Scenarios of the kernels of a Mamba-2 block, sent by their own launchers."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowgraph.ops import (
    BinaryCrossEntropy,
    CausalConv1d,
    GatedLoop,
    GatedRmsNorm,
    GatedUpdate,
    Readout,
    Residual,
    RmsNorm,
    Ssd,
)
from lowgraph.ops.ssd_tensors import SsdInputs, SsdSaved, SsdSizes, SsdWorkspace
from lowgraph.precision import Precision
from tests.check.bugs.bench import Array, Bench, Check
from tests.check.bugs.registry import close, scenario
from tests.check.bugs.sources import library as _library
from tests.ops import twins_mamba as twins
from tests.ops.compare import normal, wide

ROWS, COLUMNS, EPSILON = 33, 37, 1e-5  # three blocks of 16 rows, the last with one
CONV = 2, 21, 37  # three tiles of 8 time steps, the last with five
COUNT = 1157
SIZES = SsdSizes(2, 77, 2, 9, 7)  # three chunks, the last with 13 steps
TWO_WARPS = SsdSizes(1, 77, 1, 12, 45)  # 36 quads of quads of a state: four for a second warp
SHORT = SsdSizes(2, 45, 2, 9, 40)  # one block a head
LOOP = 33, 40, 3  # rows, channels, turns: three blocks, the last with a row
GRADIENTS = ("dx", "draw", "ddt_bias", "da_log", "db", "dc", "dd")  # in the order of SsdInputs


@scenario
def conv1d(bench: Bench, fault: str) -> list[Check]:
    arrays = normal(0, *CONV), normal(1, CONV[2], 4), normal(2, CONV[2])
    y = bench.empty(CONV, name="y")
    layer = CausalConv1d(_library(bench))
    layer.forward(bench.stream, y, *(bench.put(array) for array in arrays), *CONV)
    return close(bench, y=(y, twins.conv1d_forward(*wide(*arrays))))


@scenario
def gated_norm(bench: Bench, fault: str) -> list[Check]:
    arrays = normal(0, ROWS, COLUMNS), normal(1, ROWS, COLUMNS), normal(2, COLUMNS)
    y, rstd = bench.empty((ROWS, COLUMNS), name="y"), bench.empty(ROWS, name="rstd")
    layer = GatedRmsNorm(_library(bench), EPSILON)
    inputs = [bench.put(array) for array in arrays]
    layer.forward(bench.stream, y, rstd, *inputs, ROWS, COLUMNS)
    want = twins.gated_norm_forward(*wide(*arrays), EPSILON)
    return close(bench, y=(y, want[0]), rstd=(rstd, want[1]))


@scenario
def rms_norm(bench: Bench, fault: str) -> list[Check]:
    arrays = normal(0, ROWS, COLUMNS), normal(1, ROWS, COLUMNS), normal(2, COLUMNS)
    outputs = [bench.empty((ROWS, COLUMNS), name=name) for name in ("y", "sum")]
    y, total = outputs
    rstd, layer = bench.empty(ROWS, name="rstd"), RmsNorm(_library(bench), EPSILON)
    inputs = [bench.put(array) for array in arrays]
    layer.add_forward(bench.stream, y, rstd, total, *inputs, ROWS, COLUMNS)
    want = twins.rms_norm_forward(*wide(arrays[0] + arrays[1], arrays[2]), EPSILON)
    return close(bench, y=(y, want[0]), rstd=(rstd, want[1]), sum=(total, arrays[0] + arrays[1]))


@scenario
def gated_update(bench: Bench, fault: str) -> list[Check]:
    shapes = (ROWS, COLUMNS), (ROWS, 2 * COLUMNS), (COLUMNS,), (COLUMNS,)
    arrays = [normal(n, *shape) for n, shape in enumerate(shapes)]
    h, gates, *biases = (bench.put(array) for array in arrays)
    after = bench.empty((ROWS, COLUMNS), name="next")
    layer = GatedUpdate(_library(bench))
    layer.forward(bench.stream, after, gates, h, *biases, ROWS, COLUMNS)
    want = twins.gated_update_forward(*wide(*arrays))
    return close(bench, next=(after, want[0]), gates=(gates, want[1]))


@scenario
def bce(bench: Bench, fault: str) -> list[Check]:
    logits, targets = normal(0, COUNT), normal(1, COUNT, mean=0.5, scale=0.1)
    loss = bench.empty(1, name="loss")
    partial = bench.empty(BinaryCrossEntropy.partial_shape(COUNT), name="partial")
    inputs = [bench.put(logits, "logits"), bench.put(targets, "targets")]
    BinaryCrossEntropy(_library(bench)).forward(bench.stream, loss, partial, *inputs, COUNT)
    return close(bench, loss=(loss, np.array([twins.bce_forward(*wide(logits, targets))])))


def _ssd_arrays(sizes: SsdSizes) -> list[Array]:
    batch, length, heads, size, state = sizes
    shapes = [(batch, length, heads, size), (batch, length, heads), (heads,), (heads,),
              (batch, length, state), (batch, length, state), (heads,)]  # fmt: skip
    return [normal(n, *shape) for n, shape in enumerate(shapes)]


@scenario
def ssd(bench: Bench, fault: str) -> list[Check]:
    """Forward and backward."""
    return _ssd_checks(bench, SIZES)


@scenario
def ssd_two_warps(bench: Bench, fault: str) -> list[Check]:
    """The same of a state that both warps of a block have a part of."""
    return _ssd_checks(bench, TWO_WARPS)


@scenario
def ssd_short(bench: Bench, fault: str) -> list[Check]:
    """The same of a sequence that one block makes by itself."""
    return _ssd_checks(bench, SHORT)


def _ssd_checks(bench: Bench, sizes: SsdSizes) -> list[Check]:
    arrays, dy = _ssd_arrays(sizes), normal(9, *sizes[:4])
    layer, y = Ssd(_library(bench)), bench.empty(sizes[:4], name="y")
    inputs = SsdInputs(*(bench.put(array) for array in arrays))

    def space_of(shapes: tuple[tuple[int, ...], ...]) -> list[Any]:
        return [bench.empty(shape) if all(shape) else 0 for shape in shapes]

    saved = SsdSaved(*space_of(Ssd.saved_shapes(sizes)))
    layer.forward(bench.stream, y, saved, inputs, sizes)
    space = SsdWorkspace(*space_of(Ssd.workspace_shapes(sizes)))
    grads = [bench.empty(a.shape, name=n) for n, a in zip(GRADIENTS, arrays, strict=True)]
    device_dy = bench.put(dy, "dy")
    layer.backward(bench.stream, SsdInputs(*grads), space, device_dy, inputs, saved, sizes)
    want = twins.ssd_backward(*wide(dy, *arrays))
    pairs: dict[str, Any] = {grad.name: (grad, want[grad.name]) for grad in grads}
    return close(bench, y=(y, twins.ssd_forward(*wide(*arrays))), **pairs)


@scenario
def gated_loop(bench: Bench, fault: str) -> list[Check]:
    """Forward and backward of all turns."""
    rows, channels, turns = LOOP
    x, branch, dh = (normal(n, rows, channels) for n in range(3))
    weight = normal(3, 2 * channels, channels, scale=0.2)
    biases = normal(4, channels), normal(5, channels)
    layer = GatedLoop(_library(bench), channels, Precision.FP32)
    states = bench.empty((turns + 1, rows, channels), name="states")
    gates = bench.empty((turns, rows, 2 * channels), name="gates")
    inputs = [bench.put(array) for array in (x, branch, weight, *biases)]
    layer.forward(bench.stream, states, gates, *inputs, rows, turns)
    gradient, sums = bench.put(dh, "dh"), [bench.empty(channels) for _ in range(2)]
    partial = bench.empty(layer.partial_shape(rows), name="partial")
    layer.backward(bench.stream, gradient, gates, *sums, partial, inputs[2], rows, turns)
    want = wide(x)[0] + wide(branch)[0]
    for _ in range(turns):
        want, _ = twins.gated_update_forward(want, want @ weight.T, *wide(*biases))
    last = bench.empty((rows, channels), name="last")
    Residual(_library(bench)).add(
        bench.stream, last, states.address + 4 * turns * rows * channels, bench.put(0 * x), x.size
    )
    return close(bench, last=(last, want))


@scenario
def readout(bench: Bench, fault: str) -> list[Check]:
    arrays = normal(0, ROWS, COLUMNS), normal(1, COLUMNS), normal(2, 1)
    y = bench.empty(ROWS, name="y")
    inputs = [bench.put(array) for array in arrays]
    Readout(_library(bench)).forward(bench.stream, y, *inputs, ROWS, COLUMNS)
    x, weight, bias = wide(*arrays)
    return close(bench, y=(y, x @ weight + bias))
