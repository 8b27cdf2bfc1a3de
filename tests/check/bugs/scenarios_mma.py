"""Scenarios of the tensor cores' kernels: attention and linear layers in bfloat16."""

from __future__ import annotations

import numpy as np

from lowgraph.ops import FlashAttention, FusedLinear
from lowgraph.ops.shapes import ceil_div
from lowgraph.precision import BFLOAT16, bfloat16_bits, bfloat16_values
from tests.check.bugs.bench import Array, Bench, Buffer, Check
from tests.check.bugs.registry import CLOSE, scenario
from tests.check.bugs.sources import library
from tests.ops import twins
from tests.ops.compare import normal

ROUNDED = 2.0**-8  # one rounding to bfloat16
HEADS, HEAD, LENGTH = 2, 16, 150  # three blocks of 64 rows, the last with 22
SHAPE = 1, LENGTH, HEADS * HEAD
PACKED = 1, LENGTH, 3 * HEADS * HEAD
M, K, N = 300, 40, 24  # rows are summed in three parts, the last with 44
SMALL = 70, 40, 40  # rows, inputs, outputs: three blocks by two, the last ones not whole


def _narrow(seed: int, *shape: int) -> tuple[Array, Array]:
    """Drawn numbers as bfloat16 bits, and exactly those in float64."""
    bits = bfloat16_bits(normal(seed, *shape))
    return bits, bfloat16_values(bits).astype(np.float64)


def _narrow_check(bench: Bench, buffer: Buffer, want: Array, roundings: float) -> Check:
    got = bfloat16_values(bench.get(buffer))
    return Check(buffer.name, got, want, roundings * ROUNDED)


@scenario
def attention_mma(bench: Bench, fault: str) -> list[Check]:
    qkv, exact = _narrow(0, *PACKED)
    out, lse = bench.empty(SHAPE, BFLOAT16, "out"), bench.empty((1, HEADS, LENGTH), name="lse")
    layer = FlashAttention(library(bench), HEAD)
    layer.forward(bench.stream, out, lse, bench.put(qkv, "qkv"), 1, HEADS, LENGTH)
    want, want_lse = twins.attention_forward(exact, HEADS)
    # The weights, which sum up to 1, are rounded once, and the result once.
    return [_narrow_check(bench, out, want, 2), Check("lse", bench.get(lse), want_lse, CLOSE)]


@scenario
def attention_mma_backward(bench: Bench, fault: str) -> list[Check]:
    """By the two kernels of long sequences."""
    (qkv, exact), (dout, exact_dout) = _narrow(0, *PACKED), _narrow(1, *SHAPE)
    out, lse = twins.attention_forward(exact, HEADS)
    dqkv = bench.empty(PACKED, BFLOAT16, "dqkv")
    delta = bench.empty(lse.shape, name="delta")
    device_dout, device_qkv = bench.put(dout, "dout"), bench.put(qkv, "qkv")
    device_out = bench.put(bfloat16_bits(out), "out")
    device_lse = bench.put(lse.astype(np.float32), "lse")
    query, key = (bench.kernel("attention_mma.cu", f"attention_mma_backward_{name}", HEAD_SIZE=HEAD)
                  for name in ("query", "key"))  # fmt: skip
    launch = bench.stream, (HEADS, 1, ceil_div(LENGTH, 64)), 128
    inputs, sizes = (device_dout, device_qkv), (LENGTH, HEAD**-0.5)
    query(*launch, dqkv, delta, *inputs, device_out, device_lse, *sizes)
    key(*launch, dqkv, delta, *inputs, device_lse, *sizes)
    # out, weights and their gradient, and the result are rounded once each.
    want = twins.attention_backward(exact_dout, exact, HEADS)
    return [_narrow_check(bench, dqkv, want, 4)]


@scenario
def linear_mma(bench: Bench, fault: str) -> list[Check]:
    """Forward and backward. Fault: the weight's gradient is added to what nobody has written."""
    (x, exact_x), (weight, exact_weight) = _narrow(0, M, K), _narrow(1, N, K)
    (dy, exact_dy), bias, residual = _narrow(2, M, N), normal(3, N), normal(4, M, N)
    layer = FusedLinear(library(bench), M, K, N)
    device_x, device_weight = bench.put(x, "x"), bench.put(weight, "weight")
    device_dy, out = bench.put(dy, "dy"), bench.put(residual, "residual")
    device_bias, dx = bench.put(bias, "bias"), bench.empty((M, K), BFLOAT16, "dx")
    dweight, dbias = bench.empty((N, K), name="dweight"), bench.empty(N, name="dbias")
    space = bench.empty(layer.workspace_shape(), name="workspace")
    layer.forward_residual(bench.stream, out, device_x, device_weight, device_bias, out)
    layer.backward(
        bench.stream, dx, dweight, dbias, space, device_dy, device_x, device_weight,
        accumulate=fault == "added to nothing",
    )  # fmt: skip
    product = exact_x @ exact_weight.T
    return [
        Check("out", bench.get(out), product + bias + residual.astype(np.float64), CLOSE),
        Check("dweight", bench.get(dweight), exact_dy.T @ exact_x, CLOSE),
        Check("dbias", bench.get(dbias), exact_dy.sum(axis=0), CLOSE),
        _narrow_check(bench, dx, exact_dy @ exact_weight, 1.01),  # float32 sums, rounded once
    ]


@scenario
def attention_mma_fused(bench: Bench, fault: str) -> list[Check]:
    """Backward by the one kernel of short sequences."""
    (qkv, exact), (dout, exact_dout) = _narrow(0, *PACKED), _narrow(1, *SHAPE)
    out, lse = twins.attention_forward(exact, HEADS)
    dqkv = bench.empty(PACKED, BFLOAT16, "dqkv")
    delta = bench.empty(lse.shape, name="delta")
    device_dout, device_qkv = bench.put(dout, "dout"), bench.put(qkv, "qkv")
    device_out = bench.put(bfloat16_bits(out), "out")
    device_lse = bench.put(lse.astype(np.float32), "lse")
    kernel = bench.kernel("attention_mma.cu", "attention_mma_backward", HEAD_SIZE=HEAD)
    grid, sizes = (HEADS, 1, 2 * ceil_div(LENGTH, 64)), (LENGTH, HEAD**-0.5)
    inputs = device_dout, device_qkv, device_out, device_lse
    kernel(bench.stream, grid, 128, dqkv, delta, *inputs, *sizes)
    # out, weights and their gradient, and the result are rounded once each.
    want = twins.attention_backward(exact_dout, exact, HEADS)
    return [_narrow_check(bench, dqkv, want, 4)]


def _small_layer(bench: Bench) -> tuple[FusedLinear, Buffer, Array, Array]:
    """A layer, its input, its weight as bits, and the product of both in float64."""
    rows, inputs, outputs = SMALL
    (x, exact_x), (weight, exact_weight) = _narrow(0, rows, inputs), _narrow(1, outputs, inputs)
    layer = FusedLinear(library(bench), rows, inputs, outputs)
    return layer, bench.put(x, "x"), weight, exact_x @ exact_weight.T


@scenario
def linear_mma_plain(bench: Bench, fault: str) -> list[Check]:
    """Fault: the weight is in NumPy's memory."""
    layer, x, weight, product = _small_layer(bench)
    y, device_weight = bench.empty(product.shape, BFLOAT16, "y"), bench.put(weight, "weight")
    given = weight.ctypes.data if fault == "host weight" else device_weight.address
    layer.forward(bench.stream, y, x, given)
    return [_narrow_check(bench, y, product, 1.01)]


@scenario
def linear_mma_wide(bench: Bench, fault: str) -> list[Check]:
    """Fault: the results' buffer has room for bfloat16."""
    layer, x, weight, product = _small_layer(bench)
    y = bench.empty(product.shape, BFLOAT16 if fault == "narrow room" else np.float32, "y_wide")
    layer.forward_wide(bench.stream, y, x, bench.put(weight, "weight"))
    return [Check("y_wide", bench.get(y), product, CLOSE)]


@scenario
def linear_mma_bias(bench: Bench, fault: str) -> list[Check]:
    layer, x, weight, product = _small_layer(bench)
    bias, exact_bias = _narrow(2, SMALL[2])
    y = bench.empty(product.shape, BFLOAT16, "y")
    layer.forward_bias(bench.stream, y, x, bench.put(weight, "weight"), bench.put(bias, "bias"))
    return [_narrow_check(bench, y, product + exact_bias, 1.01)]


@scenario
def linear_mma_gelu(bench: Bench, fault: str) -> list[Check]:
    """Fault: what is active takes the place of the input, which is as wide."""
    layer, x, weight, product = _small_layer(bench)
    bias, exact_bias = _narrow(2, SMALL[2])
    hidden = bench.empty(product.shape, BFLOAT16, "hidden")
    active = x if fault == "in place" else bench.empty(product.shape, BFLOAT16, "active")
    read = bench.put(weight, "weight"), bench.put(bias, "bias")
    layer.forward_gelu(bench.stream, active, hidden, x, *read)
    want = product + exact_bias
    # The gate is approximated to about half of what rounding the result is.
    return [_narrow_check(bench, hidden, want, 1.01),
            _narrow_check(bench, active, twins.gelu_forward(want), 2)]  # fmt: skip


@scenario
def linear_mma_residual(bench: Bench, fault: str) -> list[Check]:
    """The sum takes the residual's place. Fault: it was not copied there."""
    layer, x, weight, product = _small_layer(bench)
    residual, bias = normal(3, *product.shape), normal(2, SMALL[2])
    lacks = fault == "residual not copied"
    out = bench.empty(product.shape, name="out") if lacks else bench.put(residual, "out")
    read = bench.put(weight, "weight"), bench.put(bias, "bias")
    layer.forward_residual(bench.stream, out, x, *read, out)
    return [Check("out", bench.get(out), product + bias + residual.astype(np.float64), CLOSE)]


@scenario
def linear_mma_backward_gelu(bench: Bench, fault: str) -> list[Check]:
    """Faults: dhidden takes the place of the input, active; hidden is unwritten, or misaligned."""
    (active, exact_active), (weight, exact_weight) = _narrow(0, M, K), _narrow(1, N, K)
    (dy, exact_dy), (hidden, exact_hidden) = _narrow(2, M, N), _narrow(3, M, K)
    layer, device_active = FusedLinear(library(bench), M, K, N), bench.put(active, "active")
    over, lacks = fault == "over active", fault == "hidden not kept"
    dhidden = device_active if over else bench.empty((M, K), BFLOAT16, "dhidden")
    view = fault == "hidden of a view"  # from the second number on, with room behind it
    stored = np.append(hidden, hidden[0]) if view else hidden
    kept = bench.empty((M, K), BFLOAT16, "hidden") if lacks else bench.put(stored, "hidden")
    dweight, dbias = bench.empty((N, K), name="dweight"), bench.empty(N, name="dbias")
    space = bench.empty(layer.workspace_shape(), name="workspace")
    read = bench.put(dy, "dy"), device_active, bench.put(weight, "weight"), kept.address + 2 * view
    layer.backward_gelu(bench.stream, dhidden, dweight, dbias, space, *read)
    want = twins.gelu_backward(exact_dy @ exact_weight, exact_hidden)
    return [
        Check("dweight", bench.get(dweight), exact_dy.T @ exact_active, CLOSE),
        Check("dbias", bench.get(dbias), exact_dy.sum(axis=0), CLOSE),
        _narrow_check(bench, dhidden, want, 2),  # the slope is approximated, the result rounded
    ]
