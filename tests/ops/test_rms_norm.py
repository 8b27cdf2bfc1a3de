from __future__ import annotations

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops import RmsNorm
from tests.ops import twins_mamba as twins
from tests.ops.compare import (
    ROUNDOFF,
    Array,
    assert_close,
    assert_same_bits,
    in_place,
    normal,
    output,
    wide,
)
from tests.support.rig import Rig

EPSILON = 1e-5
SIZES = [(1, 1), (1, 33), (31, 31), (65, 64), (257, 257)]
# A row's sums have at most 257 terms, added in groups: a few dozen roundings each way.
CLOSE = 64 * ROUNDOFF


def run_backward(rig: Rig, arrays: tuple[Array, ...], rstd: Array) -> list[Array]:
    """Run backward on dy, u, weight; return dx, dweight."""
    rows, channels = arrays[0].shape
    dx, dweight = output(rig, rows, channels), output(rig, channels)
    partial = output(rig, *RmsNorm.partial_shape(rows, channels), name="partial")
    inputs = [rig.put(array) for array in (*arrays, rstd)]
    RmsNorm(rig.library).backward(rig.stream, dx, dweight, partial, *inputs, rows, channels)
    partial.get()
    return [dx.get(), dweight.get()]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_forward(rig: Rig, rows: int, channels: int, seed: int) -> None:
    x, weight = normal(seed, rows, channels), normal(6, channels)
    y, rstd = output(rig, rows, channels), output(rig, rows)
    RmsNorm(rig.library).forward(rig.stream, y, rstd, rig.put(x), rig.put(weight), rows, channels)
    want = twins.rms_norm_forward(*wide(x, weight), EPSILON)
    assert_close(y.get(), want[0], CLOSE, "y")
    assert_close(rstd.get(), want[1], CLOSE, "rstd")


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_a_branch_joins_first(rig: Rig, rows: int, channels: int, seed: int) -> None:
    x, branch, weight = normal(seed, rows, channels), normal(5, rows, channels), normal(6, channels)
    y, rstd, total = output(rig, rows, channels), output(rig, rows), output(rig, rows, channels)
    inputs = [rig.put(array) for array in (x, branch, weight)]
    norm = RmsNorm(rig.library)
    norm.add_forward(rig.stream, y, rstd, total, *inputs, rows, channels)
    assert_same_bits(total.get(), x + branch)
    want = twins.rms_norm_forward(*wide(x + branch, weight), EPSILON)
    assert_close(y.get(), want[0], CLOSE, "y")
    assert_close(rstd.get(), want[1], CLOSE, "rstd")
    for over_x in (True, False):
        over, again = in_place(rig, x if over_x else branch), output(rig, rows, channels)
        pair = (over, inputs[1]) if over_x else (inputs[0], over)
        norm.add_forward(rig.stream, again, rstd, over, *pair, inputs[2], rows, channels)
        assert_same_bits(again.get(), y.get())
        assert_same_bits(over.get(), total.get())


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_backward(rig: Rig, rows: int, channels: int, seed: int) -> None:
    arrays = normal(7, rows, channels), normal(seed, rows, channels), normal(6, channels)
    rstd = twins.rms_norm_forward(*wide(*arrays[1:]), EPSILON)[1].astype(np.float32)
    dx, dweight = run_backward(rig, arrays, rstd)
    want = twins.rms_norm_backward(*wide(*arrays), EPSILON)
    if channels == 1:
        # y is weight or -weight whatever x is; what is left is the rounding of g * rstd
        slope = np.abs(arrays[0] * arrays[2] * rstd[:, None])
        assert np.abs(dx - want[0]).max() <= 8 * ROUNDOFF * slope.max()
    else:
        assert_close(dx, want[0], CLOSE, "dx")
    assert_close(dweight, want[1], CLOSE, "dweight")
    for first, second in zip((dx, dweight), run_backward(rig, arrays, rstd), strict=True):
        assert_same_bits(first, second)


def test_backward_adds_where_asked_and_works_in_place(rig: Rig) -> None:
    rows, channels = 33, 12
    dy, u, weight = normal(0, rows, channels), normal(1, rows, channels), normal(3, channels)
    stream, before = normal(5, rows, channels), normal(4, channels)
    rstd = twins.rms_norm_forward(*wide(u, weight), EPSILON)[1].astype(np.float32)
    inputs = [rig.put(array) for array in (u, weight, rstd)]
    partial = output(rig, *RmsNorm.partial_shape(rows, channels))
    want = twins.rms_norm_backward(*wide(dy, u, weight), EPSILON)
    norm = RmsNorm(rig.library)

    dx, dweight = in_place(rig, dy), in_place(rig, before)
    norm.backward(rig.stream, dx, dweight, partial, dx, *inputs, rows, channels, accumulate=True)
    assert_close(dx.get(), want[0], CLOSE, "dx")
    assert_close(dweight.get(), before + want[1], CLOSE, "dweight")

    added, dweight = in_place(rig, stream), output(rig, channels)
    norm.backward(
        rig.stream, added, dweight, partial, rig.put(dy), *inputs, rows, channels, add_dx=True
    )
    assert_close(added.get(), stream + want[0], CLOSE, "dx added")
    assert_close(dweight.get(), want[1], CLOSE, "dweight alone")


def test_no_rows_and_no_columns(rig: Rig) -> None:
    empty, norm = np.zeros((0, 8), np.float32), RmsNorm(rig.library)
    assert not run_backward(rig, (empty, empty, normal(0, 8)), np.zeros(0, np.float32))[1].any()
    norm.forward(rig.stream, 0, 0, 0, 0, 0, 8)
    with pytest.raises(ConfigError, match="channels must be 1 to"):
        norm.forward(rig.stream, 0, 0, 0, 0, 1, 0)
