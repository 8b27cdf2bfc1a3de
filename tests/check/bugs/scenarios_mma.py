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
