from __future__ import annotations

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops import GatedRmsNorm
from tests.ops import twins_mamba as twins
from tests.ops.compare import (
    ROUNDOFF,
    Array,
    assert_close,
    assert_same_bits,
    columns,
    in_place,
    normal,
    output,
    wide,
)
from tests.support.rig import Rig

EPSILON = 1e-5
SIZES = [(1, 1), (1, 33), (31, 31), (65, 64), (257, 257), (33, 260), (33, 256)]
# A row's sums have at most 257 terms, added in groups: a few dozen roundings each way.
CLOSE = 64 * ROUNDOFF


def run_backward(rig: Rig, arrays: tuple[Array, ...], rstd: Array) -> list[Array]:
    """Run backward on dy, x, z, weight; return dx, dz, dweight."""
    rows, channels = arrays[0].shape
    grads = [output(rig, rows, channels), output(rig, rows, channels), output(rig, channels)]
    partial = output(rig, *GatedRmsNorm.partial_shape(rows, channels), name="partial")
    inputs = [rig.put(array) for array in (*arrays, rstd)]
    GatedRmsNorm(rig.library).backward(rig.stream, *grads, partial, *inputs, rows, channels)
    partial.get()
    return [grad.get() for grad in grads]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_forward(rig: Rig, rows: int, channels: int, seed: int) -> None:
    arrays = normal(seed, rows, channels), normal(5, rows, channels), normal(6, channels)
    y, rstd = output(rig, rows, channels), output(rig, rows)
    inputs = [rig.put(array) for array in arrays]
    GatedRmsNorm(rig.library).forward(rig.stream, y, rstd, *inputs, rows, channels)
    want = twins.gated_norm_forward(*wide(*arrays), EPSILON)
    assert_close(y.get(), want[0], CLOSE, "y")
    assert_close(rstd.get(), want[1], CLOSE, "rstd")


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_backward(rig: Rig, rows: int, channels: int, seed: int) -> None:
    x, z = normal(seed, rows, channels), normal(5, rows, channels)
    arrays = normal(7, rows, channels), x, z, normal(6, channels)
    _, rstd = twins.gated_norm_forward(*wide(*arrays[1:]), EPSILON)
    grads = run_backward(rig, arrays, rstd.astype(np.float32))
    want = twins.gated_norm_backward(*wide(*arrays), EPSILON)
    for name, got, wanted in zip(("dx", "dz", "dweight"), grads, want, strict=True):
        if channels == 1 and name != "dweight":
            # y is weight or -weight whatever x is; what is left is the rounding of g * rstd
            slope = np.abs(arrays[0] * arrays[3] * rstd[:, None] * np.maximum(1, np.abs(x * z)))
            assert np.abs(got - wanted).max() <= 8 * ROUNDOFF * slope.max()
        else:
            assert_close(got, wanted, CLOSE, name)
    for first, second in zip(
        grads, run_backward(rig, arrays, rstd.astype(np.float32)), strict=True
    ):
        assert_same_bits(first, second)


def test_backward_adds_where_asked_and_works_in_place(rig: Rig) -> None:
    rows, channels = 33, 12
    x, z, weight = normal(1, rows, channels), normal(2, rows, channels), normal(3, channels)
    dy, before = normal(0, rows, channels), normal(4, channels)
    _, rstd = twins.gated_norm_forward(*wide(x, z, weight), EPSILON)
    dx, dz, dweight = in_place(rig, dy), output(rig, rows, channels), in_place(rig, before)
    inputs = [rig.put(array) for array in (x, z, weight, rstd.astype(np.float32))]
    partial = output(rig, *GatedRmsNorm.partial_shape(rows, channels))
    GatedRmsNorm(rig.library).backward(
        rig.stream, dx, dz, dweight, partial, dx, *inputs, rows, channels, accumulate=True
    )
    want = twins.gated_norm_backward(*wide(dy, x, z, weight), EPSILON)
    assert_close(dx.get(), want[0], CLOSE, "dx")
    assert_close(dz.get(), want[1], CLOSE, "dz")
    assert_close(dweight.get(), before + want[2], CLOSE, "dweight")


@pytest.mark.parametrize("channels", [3, 64])
def test_a_chunk_of_more_than_one_turn(rig: Rig, channels: int) -> None:
    """2065 rows are 130 blocks: 65 chunks of two, the last one with a row and nothing."""
    assert GatedRmsNorm.partial_shape(2065, channels) == (65, channels)
    arrays = *(normal(n, 2065, channels) for n in range(3)), normal(6, channels)
    _, rstd = twins.gated_norm_forward(*wide(*arrays[1:]), EPSILON)
    grads = run_backward(rig, arrays, rstd.astype(np.float32))
    want = twins.gated_norm_backward(*wide(*arrays), EPSILON)
    for got, wanted in zip(grads, want, strict=True):
        assert_close(got, wanted, 4 * CLOSE)  # dweight sums 2065 rows


def test_no_rows_and_no_columns(rig: Rig) -> None:
    empty = np.zeros((0, 8), np.float32)
    grads = run_backward(rig, (empty, empty, empty, normal(0, 8)), np.zeros(0, np.float32))
    assert not grads[2].any()
    with pytest.raises(ConfigError, match="channels must be 1 to"):
        GatedRmsNorm(rig.library).forward(rig.stream, 0, 0, 0, 0, 0, 1, 0)


@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_a_gate_in_a_wider_matrix(rig: Rig, rows: int, channels: int) -> None:
    """The same bits as from a matrix of its own; what lies beside the columns stays."""
    x, z, weight = normal(1, rows, channels), normal(2, rows, channels), normal(3, channels)
    dy, row, norm = normal(0, rows, channels), channels + 7, GatedRmsNorm(rig.library)
    around = normal(9, rows, row)
    around[:, 3 : 3 + channels] = z
    y, rstd, dense, same = (output(rig, *s) for s in (x.shape, (rows,), x.shape, (rows,)))
    inputs = rig.put(x), rig.put(z), rig.put(weight)
    gate = columns(rig.put(around), 3)
    norm.forward(rig.stream, y, rstd, inputs[0], gate, inputs[2], rows, channels, z_row=row)
    norm.forward(rig.stream, dense, same, *inputs, rows, channels)
    assert_same_bits(y.get(), dense.get())
    assert_same_bits(rstd.get(), same.get())

    dx, dz, dweight = output(rig, rows, channels), in_place(rig, around), output(rig, channels)
    partial = output(rig, *norm.partial_shape(rows, channels))
    norm.backward(
        rig.stream, dx, columns(dz, 3), dweight, partial, rig.put(dy), inputs[0], gate, inputs[2],
        rstd, rows, channels, z_row=row,
    )  # fmt: skip
    want = run_backward(rig, (dy, x, z, weight), same.get())
    around[:, 3 : 3 + channels] = want[1]
    for got, wanted in zip((dx, dz, dweight), (want[0], around, want[2]), strict=True):
        assert_same_bits(got.get(), wanted)


def test_rows_that_overlap_are_refused(rig: Rig) -> None:
    with pytest.raises(ConfigError, match="z_row must be 8 to"):
        GatedRmsNorm(rig.library).forward(rig.stream, 0, 0, 0, 0, 0, 1, 8, z_row=7)
