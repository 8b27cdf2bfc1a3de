from __future__ import annotations

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops import CausalConv1d
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

SIZES = [
    (1, 1, 1, 4),
    (2, 31, 33, 4),
    (3, 33, 257, 4),
    (1, 65, 8, 1),
    (2, 7, 31, 8),
    (2, 130, 68, 8),
]
# y: at most 9 terms and an exponential. Gradients of parameters: up to 99 rows in a few chunks.
CLOSE = 32 * ROUNDOFF


def run_backward(rig: Rig, conv: CausalConv1d, arrays: tuple[Array, ...]) -> list[Array]:
    """Run backward on dy, x, weight, bias; return dx, dweight, dbias."""
    *_, channels = sizes = arrays[0].shape
    shapes = [sizes, (channels, conv.width), (channels,)]
    grads = [output(rig, *shape) for shape in shapes]
    partial = output(rig, *conv.partial_shape(*sizes), name="partial")
    inputs = [rig.put(array) for array in arrays]
    conv.backward(rig.stream, grads[0], partial, *inputs, *sizes)
    conv.backward_parameters(rig.stream, *grads[1:], partial, *sizes)
    partial.get()
    return [grad.get() for grad in grads]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("batch", "length", "channels", "width"), SIZES)
def test_forward(rig: Rig, batch: int, length: int, channels: int, width: int, seed: int) -> None:
    arrays = normal(seed, batch, length, channels), normal(2, channels, width), normal(3, channels)
    y = output(rig, batch, length, channels)
    inputs = [rig.put(array) for array in arrays]
    CausalConv1d(rig.library, width).forward(rig.stream, y, *inputs, batch, length, channels)
    assert_close(y.get(), twins.conv1d_forward(*wide(*arrays)), CLOSE, "y")


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("batch", "length", "channels", "width"), SIZES)
def test_backward(rig: Rig, batch: int, length: int, channels: int, width: int, seed: int) -> None:
    sizes = (batch, length, channels)
    arrays = (
        normal(7, *sizes),
        normal(seed, *sizes),
        normal(2, channels, width),
        normal(3, channels),
    )
    conv = CausalConv1d(rig.library, width)
    grads = run_backward(rig, conv, arrays)
    want = twins.conv1d_backward(*wide(*arrays))
    for name, got, wanted in zip(("dx", "dweight", "dbias"), grads, want, strict=True):
        assert_close(got, wanted, CLOSE, name)
    for first, second in zip(grads, run_backward(rig, conv, arrays), strict=True):
        assert_same_bits(first, second)


def test_backward_adds_where_asked(rig: Rig) -> None:
    sizes = *_, channels = 2, 33, 5
    arrays = normal(0, *sizes), normal(1, *sizes), normal(2, channels, 4), normal(3, channels)
    before = normal(4, channels, 4), normal(5, channels)
    conv = CausalConv1d(rig.library)
    dy, x, weight, bias = (rig.put(array) for array in arrays)
    dx, dweight, dbias = output(rig, *sizes), rig.put(before[0]), rig.put(before[1])
    partial = output(rig, *conv.partial_shape(*sizes))
    conv.backward(rig.stream, dx, partial, dy, x, weight, bias, *sizes)
    conv.backward_parameters(rig.stream, dweight, dbias, partial, *sizes, accumulate=True)
    want = twins.conv1d_backward(*wide(*arrays))
    assert_close(dx.get(), want[0], CLOSE, "dx")
    assert_close(rig.get(dweight), before[0] + want[1], CLOSE, "dweight")
    assert_close(rig.get(dbias), before[1] + want[2], CLOSE, "dbias")


def test_a_chunk_of_more_than_one_turn(rig: Rig) -> None:
    """129 blocks of steps are 65 chunks of two, but for the last."""
    sizes = 129, 2, 3
    arrays = normal(0, *sizes), normal(1, *sizes), normal(2, 3, 4), normal(3, 3)
    conv = CausalConv1d(rig.library)
    assert conv.partial_shape(*sizes)[0] == 65
    want = twins.conv1d_backward(*wide(*arrays))
    for got, wanted in zip(run_backward(rig, conv, arrays), want, strict=True):
        assert_close(got, wanted, 4 * CLOSE)  # of 258 rows


def test_the_gate_of_a_large_input_is_one_or_nothing(rig: Rig) -> None:
    x, one = np.array([[[-200.0], [200.0]]], np.float32), np.ones((1, 1), np.float32)
    y, bias = output(rig, 1, 2, 1), rig.put(np.zeros(1, np.float32))
    CausalConv1d(rig.library, 1).forward(rig.stream, y, rig.put(x), rig.put(one), bias, 1, 2, 1)
    assert y.get().ravel().tolist() == [0.0, 200.0]


def test_no_rows(rig: Rig) -> None:
    grads = run_backward(
        rig, CausalConv1d(rig.library),
        (normal(0, 0, 5, 3), normal(0, 0, 5, 3), normal(0, 3, 4), normal(0, 3)),
    )  # fmt: skip
    assert not any(grad.any() for grad in grads)


@pytest.mark.parametrize("width", [0, 9])
def test_a_width_that_has_no_kernel(rig: Rig, width: int) -> None:
    with pytest.raises(ConfigError, match=f"width must be 1 to 8, got {width}"):
        CausalConv1d(rig.library, width)


@pytest.mark.parametrize(("batch", "length", "channels", "width"), SIZES)
def test_columns_of_a_wider_matrix(
    rig: Rig, batch: int, length: int, channels: int, width: int
) -> None:
    """The same bits as from a matrix of its own; what lies beside the columns stays."""
    sizes, row = (batch, length, channels), channels + 5
    arrays = normal(7, *sizes), normal(1, *sizes), normal(2, channels, width), normal(3, channels)
    conv = CausalConv1d(rig.library, width)
    around = normal(9, batch, length, row)
    around[..., 2 : 2 + channels] = arrays[1]
    dy, x, weight, bias = (rig.put(a) for a in (arrays[0], around, *arrays[2:]))
    y, dense = output(rig, *sizes), output(rig, *sizes)
    conv.forward(rig.stream, y, columns(x, 2), weight, bias, *sizes, x_row=row)
    conv.forward(rig.stream, dense, rig.put(arrays[1]), weight, bias, *sizes)
    assert_same_bits(y.get(), dense.get())

    dx = in_place(rig, around)
    dweight, dbias = output(rig, channels, width), output(rig, channels)
    partial = output(rig, *conv.partial_shape(*sizes))
    inputs = dy, columns(x, 2), weight, bias
    conv.backward(rig.stream, columns(dx, 2), partial, *inputs, *sizes, x_row=row)
    conv.backward_parameters(rig.stream, dweight, dbias, partial, *sizes)
    want = run_backward(rig, conv, arrays)
    around[..., 2 : 2 + channels] = want[0]
    for got, wanted in zip((dx, dweight, dbias), (around, *want[1:]), strict=True):
        assert_same_bits(got.get(), wanted)


def test_rows_that_overlap_are_refused(rig: Rig) -> None:
    with pytest.raises(ConfigError, match="x_row must be 8 to"):
        CausalConv1d(rig.library).forward(rig.stream, 0, 0, 0, 0, 1, 1, 8, x_row=7)
