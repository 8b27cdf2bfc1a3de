from __future__ import annotations

import numpy as np
import pytest

from lowgraph.ops import LayerNorm
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

EPSILON = 1e-5
SIZES = [(1, 1), (1, 33), (31, 31), (33, 64), (257, 257), (40, 256)]
# A row's sums have at most 257 terms, added in groups: a few dozen roundings each way.
CLOSE = 64 * ROUNDOFF


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_forward(rig: Rig, rows: int, channels: int, seed: int) -> None:
    x, weight, bias = (
        normal(seed, rows, channels, mean=0.5),
        normal(1, channels),
        normal(2, channels),
    )
    y, mean, rstd = output(rig, rows, channels), output(rig, rows), output(rig, rows)

    LayerNorm(rig.library).forward(
        rig.stream, y, mean, rstd, rig.put(x), rig.put(weight), rig.put(bias), rows, channels
    )

    want = twins.layernorm_forward(*wide(x, weight, bias), EPSILON)
    for name, got, wanted in zip(("y", "mean", "rstd"), (y, mean, rstd), want, strict=True):
        assert_close(got.get(), wanted, CLOSE, name)


def test_forward_keeps_a_small_spread_on_a_large_mean(rig: Rig) -> None:
    """Mean of squares minus square of the mean would lose every digit here."""
    x = normal(3, 8, 96, mean=1000.0, scale=0.05)
    ones, zeros = np.ones(96, np.float32), np.zeros(96, np.float32)
    y, mean, rstd = output(rig, 8, 96), output(rig, 8), output(rig, 8)

    LayerNorm(rig.library).forward(
        rig.stream, y, mean, rstd, rig.put(x), rig.put(ones), rig.put(zeros), 8, 96
    )

    want, _, want_rstd = twins.layernorm_forward(*wide(x, ones, zeros), EPSILON)
    assert_close(y.get(), want, CLOSE, "y")
    assert_close(rstd.get(), want_rstd, CLOSE, "rstd")


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_backward(rig: Rig, rows: int, channels: int, seed: int) -> None:
    x, dy, weight = normal(seed, rows, channels), normal(7, rows, channels), normal(1, channels)
    _, mean, rstd = twins.layernorm_forward(*wide(x, weight, weight), EPSILON)
    saved = [rig.put(array.astype(np.float32)) for array in (mean, rstd)]
    dx, dweight, dbias = output(rig, rows, channels), output(rig, channels), output(rig, channels)
    partial = output(rig, *LayerNorm.partial_shape(rows, channels), name="partial")

    LayerNorm(rig.library).backward(
        rig.stream, dx, dweight, dbias, partial, rig.put(dy), rig.put(x), rig.put(weight), *saved,
        rows, channels,
    )  # fmt: skip

    want = twins.layernorm_backward(*wide(dy, x, weight), EPSILON)
    if channels == 1:
        # xhat is 0 and dx vanishes; rstd is 316, so what is left is its rounding times dy.
        want = (np.zeros_like(want[0]), np.zeros_like(want[1]), want[2])
        assert np.abs(dx.get()).max() <= 316 * 8 * ROUNDOFF * np.abs(dy * weight).max()
        assert np.abs(dweight.get()).max() <= 316 * ROUNDOFF * np.abs(x).max() * np.abs(dy).sum()
    else:
        assert_close(dx.get(), want[0], CLOSE, "dx")
        assert_close(dweight.get(), want[1], CLOSE, "dweight")
    assert_close(dbias.get(), want[2], CLOSE, "dbias")
    partial.get()


def test_backward_adds_where_asked(rig: Rig) -> None:
    rows, channels = 45, 36
    x, dy, weight = normal(0, rows, channels), normal(1, rows, channels), normal(2, channels)
    before = normal(3, rows, channels), normal(4, channels), normal(5, channels)
    _, mean, rstd = twins.layernorm_forward(*wide(x, weight, weight), EPSILON)
    dx, dweight, dbias = (in_place(rig, array) for array in before)
    partial = output(rig, *LayerNorm.partial_shape(rows, channels))

    LayerNorm(rig.library).backward(
        rig.stream, dx, dweight, dbias, partial, rig.put(dy), rig.put(x), rig.put(weight),
        rig.put(mean.astype(np.float32)), rig.put(rstd.astype(np.float32)), rows, channels,
        add_dx=True, accumulate=True,
    )  # fmt: skip

    want = twins.layernorm_backward(*wide(dy, x, weight), EPSILON)
    for name, got, old, new in zip(
        ("dx", "dweight", "dbias"), (dx, dweight, dbias), before, want, strict=True
    ):
        assert_close(got.get(), old + new, CLOSE, name)


def test_backward_repeats_bit_for_bit(rig: Rig) -> None:
    rows, channels = 300, 72
    arrays = normal(0, rows, channels), normal(1, rows, channels), normal(2, channels)
    inputs = [rig.put(array) for array in (*arrays, normal(3, rows), normal(4, rows))]
    partial = output(rig, *LayerNorm.partial_shape(rows, channels))
    runs = []
    for _ in range(3):
        grads = [output(rig, rows, channels), output(rig, channels), output(rig, channels)]
        LayerNorm(rig.library).backward(rig.stream, *grads, partial, *inputs, rows, channels)
        runs.append([grad.get() for grad in grads])
    for later in runs[1:]:
        for first, second in zip(runs[0], later, strict=True):
            assert_same_bits(first, second)


def test_parameters_may_start_at_any_float(rig: Rig) -> None:
    """A part of an arena need not be 16-byte aligned, though rows of 64 could be read by quads."""
    rows, channels = 5, 64
    x, both = normal(0, rows, channels), normal(1, 2 * channels + 1)
    arena = rig.put(both)
    y, mean, rstd = output(rig, rows, channels), output(rig, rows), output(rig, rows)

    LayerNorm(rig.library).forward(
        rig.stream, y, mean, rstd, rig.put(x), arena.address + 4,
        arena.address + 4 + 4 * channels, rows, channels,
    )  # fmt: skip

    weight, bias = both[1 : channels + 1], both[channels + 1 :]
    want, _, _ = twins.layernorm_forward(*wide(x, weight, bias), EPSILON)
    assert_close(y.get(), want, CLOSE, "y")


def test_no_rows(rig: Rig) -> None:
    nothing = rig.put(np.zeros((0, 8), np.float32))
    row = rig.put(np.ones(8, np.float32))
    dweight, dbias = output(rig, 8), output(rig, 8)
    partial = output(rig, *LayerNorm.partial_shape(0, 8))
    norm = LayerNorm(rig.library)

    norm.forward(rig.stream, nothing, nothing, nothing, nothing, row, row, 0, 8)
    norm.backward(
        rig.stream, nothing, dweight, dbias, partial, nothing, nothing, row, nothing, nothing, 0, 8
    )

    assert not dweight.get().any()
    assert not dbias.get().any()
