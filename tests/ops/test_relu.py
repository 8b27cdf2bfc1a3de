from __future__ import annotations

import numpy as np
import pytest

from lowgraph.ops import BiasRelu
from lowgraph.precision import Precision, bfloat16_bits, bfloat16_values
from tests.ops.compare import (
    ROUNDOFF,
    Array,
    assert_close,
    assert_same_bits,
    in_place,
    normal,
    output,
)
from tests.support.rig import Rig

# A block walks 16 rows and 32 columns at once, four columns a thread.
SIZES = [(1, 1), (1, 31), (33, 257), (16, 32), (65, 64), (257, 33)]


def backward(rig: Rig, dy: Array, y: Array) -> tuple[Array, Array]:
    rows, channels = dy.shape
    dx, dbias = in_place(rig, dy), output(rig, channels)
    BiasRelu(rig.library).backward(rig.stream, dx, dbias, rig.put(y), rows, channels)
    return dx.get(), dbias.get()


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_forward(rig: Rig, rows: int, channels: int, seed: int) -> None:
    x, bias = normal(seed, rows, channels), normal(9, channels)
    y = in_place(rig, x)
    BiasRelu(rig.library).forward(rig.stream, y, rig.put(bias), rows, channels)
    assert_same_bits(y.get(), np.where(x + bias > 0, x + bias, np.float32(0)))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_backward(rig: Rig, rows: int, channels: int, seed: int) -> None:
    dy, y = normal(seed, rows, channels), np.maximum(normal(seed + 5, rows, channels), 0)
    dx, dbias = backward(rig, dy, y)
    want = np.zeros_like(dy)
    for row in range(rows):
        for c in range(channels):
            want[row, c] = dy[row, c] if y[row, c] > 0 else 0
    assert_same_bits(dx, want)
    # A sum of up to 257 terms of size 1, in 16 parts: each addition rounds once.
    assert_close(dbias, want.astype(np.float64).sum(axis=0), 33 * ROUNDOFF)
    for first, again in zip((dx, dbias), backward(rig, dy, y), strict=True):
        assert_same_bits(first, again)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
@pytest.mark.parametrize("bias_kind", [Precision.FP32, Precision.BF16], ids=str)
def test_bfloat16_is_rounded_once(
    rig: Rig, rows: int, channels: int, seed: int, bias_kind: Precision
) -> None:
    x, bias = (bfloat16_bits(normal(seed, *shape)) for shape in ((rows, channels), (channels,)))
    exact_x, exact_bias = bfloat16_values(x), bfloat16_values(bias)
    given = bias if bias_kind is Precision.BF16 else exact_bias
    y, relu = in_place(rig, x), BiasRelu(rig.library, Precision.BF16, bias_kind)
    relu.forward(rig.stream, y, rig.put(given), rows, channels)
    want = bfloat16_bits(np.maximum(exact_x + exact_bias, np.float32(0)))
    np.testing.assert_array_equal(y.get(), want)

    dy = bfloat16_bits(normal(seed + 3, rows, channels))
    dx, dbias = in_place(rig, dy), output(rig, channels)
    relu.backward(rig.stream, dx, dbias, rig.put(want), rows, channels)
    kept = np.where(bfloat16_values(want) > 0, dy, np.uint16(0))
    np.testing.assert_array_equal(dx.get(), kept)
    exact = bfloat16_values(kept).astype(np.float64)
    assert_close(dbias.get(), exact.sum(axis=0), 33 * ROUNDOFF)  # as in float32 above


def test_a_nan_is_not_hidden(rig: Rig) -> None:
    """fmaxf would turn it into a zero, and a broken run would look like a dead layer."""
    x = np.array([[np.nan, -1.0, 2.0, -0.0]], np.float32)
    y = in_place(rig, x)
    BiasRelu(rig.library).forward(rig.stream, y, rig.put(np.zeros(4, np.float32)), 1, 4)
    np.testing.assert_array_equal(y.get(), [[np.nan, 0, 2, 0]])
    dx, dbias = backward(rig, np.full((1, 4), 3, np.float32), y.get())
    np.testing.assert_array_equal(dx, [[3, 0, 3, 0]])
    np.testing.assert_array_equal(dbias, [3, 0, 3, 0])
    assert np.isnan(
        backward(rig, np.full((2, 1), np.nan, np.float32), np.ones((2, 1), np.float32))[1]
    ).all()


def test_no_rows_and_no_columns(rig: Rig) -> None:
    dx, dbias = backward(rig, np.zeros((0, 7), np.float32), np.zeros((0, 7), np.float32))
    np.testing.assert_array_equal(dbias, np.zeros(7))
    assert dx.size == 0
    untouched = output(rig, 4)
    BiasRelu(rig.library).forward(rig.stream, untouched, 0, 0, 4)
    BiasRelu(rig.library).backward(rig.stream, untouched, 0, 0, 4, 0)
    assert np.isnan(untouched.get()).all()
