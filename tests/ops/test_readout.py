from __future__ import annotations

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops import Readout
from tests.ops.compare import ROUNDOFF, Array, assert_close, assert_same_bits, normal, output, wide
from tests.support.rig import Rig

SIZES = [(1, 1), (1, 33), (31, 31), (257, 128), (33, 260), (2065, 5)]
# Up to 260 products a row, and sums of 2065 rows by parts.
CLOSE = 64 * ROUNDOFF


def make(seed: int, rows: int, channels: int) -> tuple[Array, ...]:
    """dy, x, weight."""
    return normal(seed, rows), normal(seed + 10, rows, channels), normal(seed + 20, channels)


def run_backward(rig: Rig, arrays: tuple[Array, ...]) -> list[Array]:
    """Return dx, dweight, dbias."""
    rows, channels = arrays[1].shape
    grads = [output(rig, rows, channels), output(rig, channels), output(rig, 1)]
    partial = output(rig, *Readout.partial_shape(rows, channels), name="partial")
    inputs = [rig.put(array) for array in arrays]
    Readout(rig.library).backward(rig.stream, *grads, partial, *inputs, rows, channels)
    partial.get()
    return [grad.get() for grad in grads]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_forward(rig: Rig, rows: int, channels: int, seed: int) -> None:
    _, x, weight = make(seed, rows, channels)
    y, bias = output(rig, rows), normal(9, 1)
    inputs = [rig.put(array) for array in (x, weight, bias)]
    Readout(rig.library).forward(rig.stream, y, *inputs, rows, channels)
    assert_close(y.get(), wide(x)[0] @ wide(weight)[0] + wide(bias)[0], CLOSE, "y")


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_backward(rig: Rig, rows: int, channels: int, seed: int) -> None:
    arrays = make(seed, rows, channels)
    grads = run_backward(rig, arrays)
    dy, x, weight = wide(*arrays)
    want = dy[:, None] * weight, dy @ x, dy.sum(keepdims=True)
    for name, got, wanted in zip(("dx", "dweight", "dbias"), grads, want, strict=True):
        # A sum of rows that cancels is small beside its terms, which are what is rounded.
        scale = max(1.0, np.abs(dy).sum() / np.abs(wanted).max()) if name == "dbias" else 1.0
        assert_close(got, wanted, CLOSE * scale, name)
    for first, second in zip(grads, run_backward(rig, arrays), strict=True):
        assert_same_bits(first, second)


def test_backward_adds_where_asked(rig: Rig) -> None:
    arrays, before = make(0, 33, 12), (normal(3, 12), normal(4, 1))
    sums = [rig.put(b) for b in before]
    dx, partial = output(rig, 33, 12), output(rig, *Readout.partial_shape(33, 12))
    inputs = [rig.put(array) for array in arrays]
    Readout(rig.library).backward(rig.stream, dx, *sums, partial, *inputs, 33, 12, accumulate=True)
    dy, x, _ = wide(*arrays)
    assert_close(rig.get(sums[0]), before[0] + dy @ x, CLOSE, "dweight")
    assert_close(rig.get(sums[1]), before[1] + dy.sum(), CLOSE, "dbias")


def test_no_rows_and_no_columns(rig: Rig) -> None:
    grads = run_backward(rig, make(0, 0, 8))
    assert not any(grad.any() for grad in grads)
    with pytest.raises(ConfigError, match="channels must be 1 to"):
        Readout(rig.library).forward(rig.stream, 0, 0, 0, 0, 1, 0)
