from __future__ import annotations

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops import GatedUpdate
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

SIZES = [(1, 1), (1, 33), (31, 31), (65, 64), (257, 257)]
# An exponential and a tanh of arguments of size 5, and a few operations on values of size 1.
CLOSE = 32 * ROUNDOFF


def make(seed: int, rows: int, channels: int) -> tuple[Array, ...]:
    """h, gates (a and b), gate_bias, candidate_bias."""
    shapes = (rows, channels), (rows, 2 * channels), (channels,), (channels,)
    return tuple(normal(seed + 10 * n, *shape) for n, shape in enumerate(shapes))


def run(rig: Rig, arrays: tuple[Array, ...], dnext: Array) -> list[Array]:
    """Forward, backward and the biases; return next, s and t, da and db, both bias gradients."""
    rows, channels = arrays[0].shape
    layer, s = GatedUpdate(rig.library), rig.stream
    h, gate_bias, candidate_bias = (rig.put(arrays[n]) for n in (0, 2, 3))
    after, gates = output(rig, rows, channels), in_place(rig, arrays[1])
    layer.forward(s, after, gates, h, gate_bias, candidate_bias, rows, channels)
    saved = gates.get()
    layer.backward(s, gates, rig.put(dnext), rows, channels)
    partial = output(rig, *layer.partial_shape(rows, channels), name="partial")
    biases = output(rig, channels), output(rig, channels)
    layer.bias_backward(s, *biases, partial, gates, rows, channels)
    partial.get()
    return [after.get(), saved, gates.get(), *(bias.get() for bias in biases)]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_forward_and_backward(rig: Rig, rows: int, channels: int, seed: int) -> None:
    arrays, dnext = make(seed, rows, channels), normal(99, rows, channels)
    after, saved, dgates, *biases = found = run(rig, arrays, dnext)
    want, want_saved = twins.gated_update_forward(*wide(*arrays))
    assert_close(after, want, CLOSE, "next")
    assert_close(saved, want_saved, CLOSE, "gates")
    want_gates = twins.gated_update_backward(*wide(dnext, *arrays))
    assert_close(dgates, want_gates, CLOSE, "dgates")
    for name, got, wanted in zip(
        ("gate", "candidate"), biases, np.split(want_gates.sum(axis=0), 2), strict=True
    ):
        # up to 257 rows in a few chunks
        assert_close(got, wanted, 4 * CLOSE, name)
    for first, second in zip(found, run(rig, arrays, dnext), strict=True):
        assert_same_bits(first, second)


def test_forward_in_place_and_biases_added(rig: Rig) -> None:
    rows, channels = 33, 5
    arrays, dnext = make(3, rows, channels), normal(9, rows, channels)
    want = run(rig, arrays, dnext)
    layer, before = GatedUpdate(rig.library), (normal(6, channels), normal(7, channels))
    h, gates = in_place(rig, arrays[0]), in_place(rig, arrays[1])
    layer.forward(rig.stream, h, gates, h, rig.put(arrays[2]), rig.put(arrays[3]), rows, channels)
    assert_same_bits(h.get(), want[0])
    biases = [in_place(rig, array) for array in before]
    partial = output(rig, *layer.partial_shape(rows, channels))
    layer.bias_backward(
        rig.stream, *biases, partial, rig.put(want[2]), rows, channels, accumulate=True
    )
    for got, old, added in zip(biases, before, want[3:], strict=True):
        assert_close(got.get(), old + added, 4 * CLOSE)


def test_gates_wide_open_and_shut(rig: Rig) -> None:
    """Where an exponential overflows: the candidate itself, or nothing; slope 0, never NaN."""
    a, b = np.float32([200, -200, 200, -200]), np.float32([200, 200, -200, -200])
    nothing = np.zeros((1, 4), np.float32)
    arrays = nothing, np.concatenate([a, b])[None], nothing[0], nothing[0]
    after, _, dgates, *_ = run(rig, arrays, nothing + 1)
    np.testing.assert_array_equal(after[0], [1, 0, -1, 0])
    np.testing.assert_array_equal(dgates, np.zeros((1, 8)))


def test_no_rows_and_no_columns(rig: Rig) -> None:
    found = run(rig, make(0, 0, 7), np.zeros((0, 7), np.float32))
    assert not any(bias.any() for bias in found[3:])
    assert run(rig, make(0, 7, 0), np.zeros((7, 0), np.float32))[0].size == 0
    with pytest.raises(ConfigError, match="columns must be 0 to"):
        GatedUpdate(rig.library).backward(rig.stream, 0, 0, 1, 2**30)
