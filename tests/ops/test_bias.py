from __future__ import annotations

import numpy as np
import pytest

from lowgraph.ops import Bias
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

SIZES = [(1, 1), (1, 257), (33, 31), (100, 64), (257, 33), (2100, 5)]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_forward(rig: Rig, rows: int, channels: int, seed: int) -> None:
    x, bias = normal(seed, rows, channels), normal(9, channels)
    y = in_place(rig, x)

    Bias(rig.library).forward(rig.stream, y, rig.put(bias), rows, channels)

    # One addition: the same bits as NumPy's.
    assert_same_bits(y.get(), x + bias)


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_backward(rig: Rig, rows: int, channels: int, accumulate: bool) -> None:
    dy, before = normal(0, rows, channels), normal(1, channels)
    dbias = in_place(rig, before) if accumulate else output(rig, channels)
    partial = output(rig, *Bias.partial_shape(rows, channels), name="partial")

    Bias(rig.library).backward(
        rig.stream, dbias, partial, rig.put(dy), rows, channels, accumulate=accumulate
    )

    wide_dy, wide_before = wide(dy, before)
    want = wide_dy.sum(axis=0) + (wide_before if accumulate else 0)
    # A chunk and then the chunks: at most 100 roundings of sums that stay below that of |dy|.
    limit = 100 * ROUNDOFF * (np.abs(wide_dy).sum(axis=0).max() + 3) / np.abs(want).max()
    assert_close(dbias.get(), want, float(limit), "dbias")
    partial.get()


def test_backward_repeats_bit_for_bit(rig: Rig) -> None:
    dy = rig.put(normal(0, 700, 100))
    partial = output(rig, *Bias.partial_shape(700, 100))
    runs = []
    for _ in range(3):
        dbias = output(rig, 100)
        Bias(rig.library).backward(rig.stream, dbias, partial, dy, 700, 100)
        runs.append(dbias.get())
    assert_same_bits(runs[0], runs[1])
    assert_same_bits(runs[0], runs[2])


def test_no_rows(rig: Rig) -> None:
    nothing, dbias = rig.put(np.zeros((0, 6), np.float32)), output(rig, 6)
    bias, partial = rig.put(np.ones(6, np.float32)), output(rig, *Bias.partial_shape(0, 6))
    ops = Bias(rig.library)

    ops.forward(rig.stream, nothing, bias, 0, 6)
    ops.backward(rig.stream, dbias, partial, nothing, 0, 6)

    assert not dbias.get().any()
