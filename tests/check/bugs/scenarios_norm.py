"""Scenarios of the tensor cores' linear layers with the norm behind them in one launch."""

from __future__ import annotations

import numpy as np

from lowgraph.ops import LayerNorm, NormedLinear
from lowgraph.precision import BFLOAT16, bfloat16_bits, bfloat16_values
from tests.check.bugs.bench import Array, Bench, Check
from tests.check.bugs.registry import scenario
from tests.check.bugs.sources import library
from tests.ops import twins
from tests.ops.compare import normal, wide

ROWS, DEPTH, C = 70, 40, NormedLinear.COLUMNS  # three blocks, the last with six rows
EPSILON = 1e-5
CLOSE = 1e-5  # sums of 40 and 128 terms in float32, of the largest element
ROUNDED = 2.0**-8  # of one rounding to bfloat16


def narrow(seed: int, *shape: int) -> tuple[Array, Array]:
    """Drawn numbers as bfloat16 bits, and exactly those in float64."""
    bits = bfloat16_bits(normal(seed, *shape))
    return bits, bfloat16_values(bits).astype(np.float64)


@scenario
def linear_norm(bench: Bench, fault: str) -> list[Check]:
    """The stream's sum takes the residual's place."""
    (x, exact_x), (weight, exact_weight) = narrow(0, ROWS, DEPTH), narrow(1, C, DEPTH)
    residual, (bias, scale, shift) = normal(2, ROWS, C), (normal(n, C) for n in (3, 4, 5))
    out, y = bench.put(residual, "out"), bench.empty((ROWS, C), BFLOAT16, "y")
    mean, rstd = bench.empty(ROWS, name="mean"), bench.empty(ROWS, name="rstd")
    layer = NormedLinear(library(bench), ROWS, DEPTH)
    read = [bench.put(array) for array in (x, weight, bias)]
    affine = bench.put(scale, "scale"), bench.put(shift, "shift")
    layer.forward(bench.stream, out, y, mean, rstd, *read, out, *affine)
    (exact_residual, exact_bias), more = wide(residual, bias), wide(scale, shift)
    sum_ = exact_residual + (exact_x @ exact_weight.T + exact_bias)
    want, want_mean, want_rstd = twins.layernorm_forward(sum_, *more, EPSILON)
    return [
        Check("out", bench.get(out), sum_, CLOSE),
        Check("y", bfloat16_values(bench.get(y)), want, 1.01 * ROUNDED),
        Check("mean", bench.get(mean), want_mean, CLOSE),
        Check("rstd", bench.get(rstd), want_rstd, CLOSE),
    ]


@scenario
def linear_norm_backward(bench: Bench, fault: str) -> list[Check]:
    """dx is added to. Fault: nobody has put there what it is added to."""
    (dz, exact_dz), (weight, exact_weight) = narrow(0, ROWS, DEPTH), narrow(1, DEPTH, C)
    normed, scale, before = normal(2, ROWS, C), normal(3, C), normal(4, ROWS, C)
    (x, factor), dy = wide(normed, scale), exact_dz @ exact_weight
    _, mean, rstd = twins.layernorm_forward(x, factor, factor, EPSILON)
    lacks = fault == "added to nothing"
    dx = bench.empty((ROWS, C), name="dx") if lacks else bench.put(before, "dx")
    operand = bench.empty((ROWS, C), BFLOAT16, "narrow")
    chunks = LayerNorm.chunks(ROWS).chunks
    partial = bench.empty((chunks, 2 * C), name="partial")
    rows = [bench.put(array.astype(np.float32)) for array in (mean, rstd)]
    read = [bench.put(array) for array in (dz, weight, normed, scale)]
    layer = NormedLinear(library(bench), ROWS, DEPTH)
    layer.backward(bench.stream, dx, operand, partial, *read, *rows, accumulate=True)
    gradient, _, _ = twins.layernorm_backward(dy, x, factor, EPSILON)
    want = before.astype(np.float64) + gradient
    xhat = (x - mean[:, None]) * rstd[:, None]
    sums = np.add.reduceat(np.hstack([dy * xhat, dy]), np.arange(0, ROWS, 16))
    return [
        Check("dx", bench.get(dx), want, CLOSE),
        Check("narrow", bfloat16_values(bench.get(operand)), want, 1.01 * ROUNDED),
        Check("partial", bench.get(partial), sums, CLOSE),
    ]
