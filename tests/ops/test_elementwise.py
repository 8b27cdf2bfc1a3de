from __future__ import annotations

import numpy as np
import pytest

from lowgraph.ops import BiasGelu, Fill, Residual
from tests.ops import twins
from tests.ops.compare import (
    ROUNDOFF,
    assert_close,
    assert_same_bits,
    in_place,
    normal,
    output,
    wide,
)
from tests.support.rig import Rig

SIZES = [(1, 1), (1, 31), (33, 257), (65, 64)]
# One exponential (2 units on a GPU) of an argument below 20, itself rounded five times.
CLOSE = 64 * ROUNDOFF


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_bias_gelu_forward(rig: Rig, rows: int, channels: int, seed: int) -> None:
    x, bias = normal(seed, rows, channels, scale=2.0), normal(9, channels)
    pre, activation = in_place(rig, x), output(rig, rows, channels)

    BiasGelu(rig.library).forward(rig.stream, activation, pre, rig.put(bias), rows, channels)

    assert_same_bits(pre.get(), x + bias)
    assert_close(activation.get(), twins.gelu_forward((x + bias).astype(np.float64)), CLOSE)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_gelu_backward(rig: Rig, rows: int, channels: int, seed: int) -> None:
    pre, dactivation = normal(seed, rows, channels, scale=2.0), normal(5, rows, channels)
    dpre = output(rig, rows, channels)

    BiasGelu(rig.library).backward(
        rig.stream, dpre, rig.put(dactivation), rig.put(pre), rows, channels
    )

    assert_close(dpre.get(), twins.gelu_backward(*wide(dactivation, pre)), CLOSE)


def test_gelu_backward_in_place(rig: Rig) -> None:
    pre, dactivation = normal(0, 7, 31), normal(1, 7, 31)
    gradient = in_place(rig, dactivation)

    BiasGelu(rig.library).backward(rig.stream, gradient, gradient, rig.put(pre), 7, 31)

    assert_close(gradient.get(), twins.gelu_backward(*wide(dactivation, pre)), CLOSE)


def test_gelu_at_the_ends(rig: Rig) -> None:
    """Where the exponential overflows or vanishes: 0 and x, slope 0 and 1, never NaN."""
    x = np.array([-1e9, -100.0, -20.0, -0.0, 0.0, 20.0, 100.0, 1e9], np.float32)
    pre, activation = in_place(rig, x.reshape(1, 8)), output(rig, 1, 8)
    slope, ones = output(rig, 1, 8), rig.put(np.ones((1, 8), np.float32))
    ops = BiasGelu(rig.library)

    ops.forward(rig.stream, activation, pre, rig.put(np.zeros(8, np.float32)), 1, 8)
    ops.backward(rig.stream, slope, ones, pre, 1, 8)

    np.testing.assert_array_equal(activation.get()[0], np.where(x > 0, x, 0))
    np.testing.assert_array_equal(slope.get()[0], [0, 0, 0, 0.5, 0.5, 1, 1, 1])


@pytest.mark.parametrize("count", [1, 31, 257, 4096])
def test_residual_add(rig: Rig, count: int) -> None:
    a, b = normal(0, count), normal(1, count)
    out, over_a = output(rig, count), in_place(rig, a)
    ops = Residual(rig.library)

    ops.add(rig.stream, out, rig.put(a), rig.put(b), count)
    ops.add(rig.stream, over_a, over_a, rig.put(b), count)

    assert_same_bits(out.get(), a + b)
    assert_same_bits(over_a.get(), a + b)


@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_residual_bias_add(rig: Rig, rows: int, channels: int) -> None:
    residual, x = normal(0, rows, channels), normal(1, rows, channels)
    bias = normal(2, channels)
    out = output(rig, rows, channels)

    Residual(rig.library).bias_add(
        rig.stream, out, rig.put(residual), rig.put(x), rig.put(bias), rows, channels
    )

    assert_same_bits(out.get(), residual + (x + bias))


@pytest.mark.parametrize("count", [1, 33, 514])
def test_fill(rig: Rig, count: int) -> None:
    out = output(rig, count)

    Fill(rig.library).forward(rig.stream, out, -2.5, count)

    assert_same_bits(out.get(), np.full(count, -2.5, np.float32))


def test_nothing_to_do_launches_nothing(rig: Rig) -> None:
    """A grid of no blocks would be refused by the driver."""
    untouched = output(rig, 4)

    Fill(rig.library).forward(rig.stream, untouched, 1.0, 0)
    Residual(rig.library).add(rig.stream, untouched, 0, 0, 0)
    Residual(rig.library).bias_add(rig.stream, untouched, 0, 0, 0, 0, 4)
    BiasGelu(rig.library).forward(rig.stream, untouched, 0, 0, 4, 0)
    BiasGelu(rig.library).backward(rig.stream, untouched, 0, 0, 0, 4)

    assert np.isnan(untouched.get()).all()
