"""Scenarios of the backward kernels of a Mamba-2 block, and of a loss over several blocks."""

from __future__ import annotations

import numpy as np

from lowgraph.ops import BinaryCrossEntropy, GatedRmsNorm, GatedUpdate, Readout
from lowgraph.ops.shapes import ceil_div, row_chunks
from tests.check.bugs.bench import Bench, Check
from tests.check.bugs.registry import CLOSE, close, scenario
from tests.check.bugs.sources import library
from tests.ops import twins_mamba as twins
from tests.ops.compare import normal, wide

ROWS, COLUMNS, EPSILON = 33, 37, 1e-5  # three blocks of 16 rows, the last with one
CONV = 3, 21, 37  # three turns: two of a block, one of another
GATED, GATED_ROW = 40, 41  # columns of a gate, and the distance of its rows
COUNT = 5003  # three blocks


@scenario
def conv1d_backward(bench: Bench, fault: str) -> list[Check]:
    """Two turns a block, which the launcher takes at longer sequences. Fault: the workspace is
    given back before the second launch."""
    batch, length, channels = CONV
    arrays = normal(0, *CONV), normal(1, *CONV), normal(2, channels, 4), normal(3, channels)
    dy, x, weight, bias = (bench.put(array) for array in arrays)
    dx, partial = bench.empty(CONV, name="dx"), bench.empty((2, 5, channels), name="partial")
    dweight, dbias = bench.empty((channels, 4), name="dweight"), bench.empty(channels, name="dbias")
    sizes = batch, length, channels
    bench.kernel("conv1d.cu", "conv1d_backward")(
        bench.stream, (2, 1), 256, dx, partial, dy, x, weight, bias, *sizes, channels, 2
    )
    if fault == "workspace given back":
        bench.drop(partial)
    bench.kernel("conv1d.cu", "conv1d_backward_final")(
        bench.stream, (1, 5), 64, dweight, dbias, partial, 2, channels, 0
    )
    want = twins.conv1d_backward(*wide(*arrays))
    return close(bench, dx=(dx, want[0]), dweight=(dweight, want[1]), dbias=(dbias, want[2]))


@scenario
def gated_norm_backward(bench: Bench, fault: str) -> list[Check]:
    """z and dz are the first columns of wider matrices."""
    arrays = normal(0, ROWS, GATED), normal(1, ROWS, GATED), normal(2, ROWS, GATED_ROW)
    dy, x, z = arrays
    weight = normal(3, GATED)
    exact = wide(dy, x, z[:, :GATED], weight)
    _, rstd = twins.gated_norm_forward(*exact[1:], EPSILON)
    dx = bench.empty((ROWS, GATED), name="dx")
    dz, dweight = bench.put(0 * z, "dz"), bench.empty(GATED, name="dweight")
    partial = bench.empty(GatedRmsNorm.partial_shape(ROWS, GATED), name="partial")
    inputs = [bench.put(array) for array in (*arrays, weight, rstd.astype(np.float32))]
    GatedRmsNorm(library(bench), EPSILON).backward(
        bench.stream, dx, dz, dweight, partial, *inputs, ROWS, GATED, z_row=GATED_ROW
    )
    want = twins.gated_norm_backward(*exact, EPSILON)
    beside = np.concatenate([want[1], np.zeros((ROWS, GATED_ROW - GATED))], axis=1)
    return close(bench, dx=(dx, want[0]), dz=(dz, beside), dweight=(dweight, want[2]))


@scenario
def rms_norm_backward(bench: Bench, fault: str) -> list[Check]:
    """The weight's sums on a side stream. Fault: dx takes the place of dy all the same."""
    dy, u, weight = normal(0, ROWS, COLUMNS), normal(1, ROWS, COLUMNS), normal(2, COLUMNS)
    _, rstd = twins.rms_norm_forward(*wide(u, weight), EPSILON)
    device_dy, device_u = bench.put(dy, "dy"), bench.put(u, "u")
    device_weight, device_rstd = bench.put(weight), bench.put(rstd.astype(np.float32), "rstd")
    place = bench.empty((ROWS, COLUMNS), name="dx")
    dx = device_dy if fault == "in place beside" else place
    chunks, chunk_rows = row_chunks(ROWS)
    partial = bench.empty((chunks, COLUMNS), name="partial")
    dweight, side = bench.empty(COLUMNS, name="dweight"), bench.new_stream()
    bench.order(side, bench.stream)
    bench.kernel("rms_norm.cu", "rms_norm_backward_partial")(
        side, (1, chunks), 64, partial, device_dy, device_u, device_rstd, ROWS, COLUMNS, chunk_rows
    )
    bench.kernel("bias.cu", "column_sum_final")(side, 1, 64, dweight, partial, chunks, COLUMNS, 0)
    bench.kernel("rms_norm.cu", "rms_norm_backward")(
        bench.stream, ceil_div(ROWS, 16), 128, dx, 0, device_dy, device_u, device_weight,
        device_rstd, ROWS, COLUMNS, 0,
    )  # fmt: skip
    bench.order(bench.stream, side)
    want = twins.rms_norm_backward(*wide(dy, u, weight), EPSILON)
    return close(bench, dx=(dx, want[0]), dweight=(dweight, want[1]))


@scenario
def gated_update_backward(bench: Bench, fault: str) -> list[Check]:
    """Fault: the gate's bias gradient is to go into an array of NumPy's."""
    h, gates, dnext = (
        normal(0, ROWS, COLUMNS),
        normal(1, ROWS, 2 * COLUMNS),
        normal(2, ROWS, COLUMNS),
    )
    none = np.zeros(COLUMNS, np.float32)
    _, saved = twins.gated_update_forward(*wide(h, gates, none, none))
    device_gates = bench.put(saved.astype(np.float32), "gates")
    layer, answer = GatedUpdate(library(bench)), np.zeros(COLUMNS, np.float32)
    layer.backward(bench.stream, device_gates, bench.put(dnext, "dnext"), ROWS, COLUMNS)
    dgate, dcandidate = (bench.empty(COLUMNS, name=name) for name in ("dgate", "dcandidate"))
    partial = bench.empty(GatedUpdate.partial_shape(ROWS, COLUMNS), name="partial")
    to = answer.ctypes.data if fault == "host gradient" else dgate.address
    layer.bias_backward(bench.stream, to, dcandidate, partial, device_gates, ROWS, COLUMNS)
    bench.sync()
    want = twins.gated_update_backward(*wide(dnext, h, gates, none, none))
    sums = np.split(want.sum(axis=0), 2)
    got = answer if fault == "host gradient" else bench.get(dgate)
    rest = close(bench, gates=(device_gates, want), dcandidate=(dcandidate, sums[1]))
    return [Check("dgate", got, sums[0], CLOSE), *rest]


@scenario
def readout_backward(bench: Bench, fault: str) -> list[Check]:
    """Loss and gradients in one launch; the chunks' sums on a side stream. Fault: it does not wait
    for them."""
    sizes, layer = (ROWS, COLUMNS), Readout(library(bench))
    x, weight, bias = normal(0, *sizes), normal(1, COLUMNS), normal(2, 1)
    targets = normal(3, ROWS, mean=0.5, scale=0.1)
    inputs = [bench.put(array) for array in (x, weight, bias, targets)]
    loss, dx = bench.empty(1, name="loss"), bench.empty(sizes, name="dx")
    partial = bench.empty(layer.partial_shape(*sizes), name="partial")
    losses = bench.empty(layer.losses_shape(ROWS), np.float64, name="losses")
    ticket = bench.put(np.zeros(1, np.uint32), "ticket")
    dweight, dbias = bench.empty(COLUMNS, name="dweight"), bench.empty(1, name="dbias")
    side = bench.new_stream()
    room = loss, dx, partial, losses, ticket
    layer.bce_and_gradient(bench.stream, *room, *inputs, *sizes)
    if fault != "no event":
        bench.order(side, bench.stream)
    layer.backward_parameters(side, dweight, dbias, partial, *sizes)
    exact, w, offset, wanted = wide(x, weight, bias, targets)
    y = exact @ w + offset
    g = twins.bce_backward(y, wanted)
    return close(
        bench, loss=(loss, np.array([twins.bce_forward(y, wanted)])), dx=(dx, g[:, None] * w),
        dweight=(dweight, g @ exact), dbias=(dbias, g.sum(keepdims=True)),
    )  # fmt: skip


@scenario
def bce_blocks(bench: Bench, fault: str) -> list[Check]:
    """So many elements that a second launch adds up what the blocks found."""
    logits, targets = normal(0, COUNT), normal(1, COUNT, mean=0.5, scale=0.1)
    loss = bench.empty(1, name="loss")
    partial = bench.empty(BinaryCrossEntropy.partial_shape(COUNT), name="partial")
    inputs = [bench.put(logits, "logits"), bench.put(targets, "targets")]
    BinaryCrossEntropy(library(bench)).forward(bench.stream, loss, partial, *inputs, COUNT)
    return close(bench, loss=(loss, np.array([twins.bce_forward(*wide(logits, targets))])))
