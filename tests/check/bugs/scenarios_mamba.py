"""Scenarios of the kernels of a Mamba-2 block, sent by their own launchers."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowgraph.ops import (
    BinaryCrossEntropy,
    CausalConv1d,
    GatedRmsNorm,
    GatedUpdate,
    RmsNorm,
    Ssd,
)
from lowgraph.ops.ssd_tensors import SsdInputs, SsdSaved, SsdSizes, SsdWorkspace
from tests.check.bugs.bench import Array, Bench, Check
from tests.check.bugs.registry import close, scenario
from tests.check.bugs.sources import library as _library
from tests.ops import twins_mamba as twins
from tests.ops.compare import normal, wide

ROWS, COLUMNS, EPSILON = 33, 37, 1e-5  # three blocks of 16 rows, the last with one
CONV = 2, 21, 37  # three tiles of 8 time steps, the last with five
COUNT = 1157
SIZES = SsdSizes(2, 77, 2, 9, 7)  # three chunks, the last with 13 steps
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


def _ssd_arrays() -> list[Array]:
    batch, length, heads, size, state = SIZES
    shapes = [(batch, length, heads, size), (batch, length, heads), (heads,), (heads,),
              (batch, length, state), (batch, length, state), (heads,)]  # fmt: skip
    return [normal(n, *shape) for n, shape in enumerate(shapes)]


@scenario
def ssd(bench: Bench, fault: str) -> list[Check]:
    """Forward and backward."""
    arrays, dy = _ssd_arrays(), normal(9, *SIZES[:4])
    layer, y = Ssd(_library(bench)), bench.empty(SIZES[:4], name="y")
    inputs = SsdInputs(*(bench.put(array) for array in arrays))
    saved = SsdSaved(*(bench.empty(shape) for shape in Ssd.saved_shapes(SIZES)))
    layer.forward(bench.stream, y, saved, inputs, SIZES)
    space = SsdWorkspace(*(bench.empty(shape) for shape in Ssd.workspace_shapes(SIZES)))
    grads = [bench.empty(a.shape, name=n) for n, a in zip(GRADIENTS, arrays, strict=True)]
    device_dy = bench.put(dy, "dy")
    layer.backward(bench.stream, SsdInputs(*grads), space, device_dy, inputs, saved, SIZES)
    want = twins.ssd_backward(*wide(dy, *arrays))
    pairs: dict[str, Any] = {grad.name: (grad, want[grad.name]) for grad in grads}
    return close(bench, y=(y, twins.ssd_forward(*wide(*arrays))), **pairs)
