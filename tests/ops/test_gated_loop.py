from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops import GatedLoop
from lowgraph.precision import Precision
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

SIZES = [(1, 8, 1), (31, 24, 3), (33, 128, 4), (257, 56, 2), (16, 64, 5)]  # rows, channels, turns
FACTORS = [Precision.FP32, Precision.TF32]
# Up to 256 products a sum, through five turns; a TF32 factor is 2^-11 off.
CLOSE = {Precision.FP32: 128 * ROUNDOFF, Precision.TF32: 8 * 2.0**-11}


def make(seed: int, rows: int, channels: int) -> tuple[Array, ...]:
    """x, branch, weight, gate_bias, candidate_bias."""
    weight = normal(seed + 20, 2 * channels, channels, scale=channels**-0.5)
    sides = normal(seed, rows, channels), normal(seed + 10, rows, channels)
    return *sides, weight, normal(seed + 30, channels), normal(seed + 40, channels)


def forward_twin(arrays: tuple[Array, ...], turns: int) -> tuple[Array, Array]:
    """Return states [turns+1,rows,C] and gates [turns,rows,2C]."""
    x, branch, weight, *biases = arrays
    states, gates = [x + branch], []
    for _ in range(turns):
        after, gate = twins.gated_update_forward(states[-1], states[-1] @ weight.T, *biases)
        states.append(after)
        gates.append(gate)
    return np.array(states), np.array(gates)


def backward_twin(arrays: tuple[Array, ...], dh: Array, turns: int) -> tuple[Array, Array, Array]:
    """Return dh of the first state, gates' gradients and both biases' side by side."""
    _, _, weight, *biases = arrays
    states, _ = forward_twin(arrays, turns)
    gradients = []
    for turn in reversed(range(turns)):
        products = states[turn] @ weight.T
        gradients.insert(0, twins.gated_update_backward(dh, states[turn], products, *biases))
        dh = dh + gradients[0] @ weight
    return dh, np.array(gradients), np.array(gradients).sum(axis=(0, 1))


def run(rig: Rig, arrays: tuple[Array, ...], dh: Array, turns: int, precision: Precision) -> Any:
    """Return states, gates, dh, gates' gradients, both biases' side by side."""
    rows, channels = arrays[0].shape
    loop, s = GatedLoop(rig.library, channels, precision), rig.stream
    states = output(rig, turns + 1, rows, channels, name="states")
    gates = output(rig, turns, rows, 2 * channels, name="gates")
    inputs = [rig.put(array) for array in arrays]
    loop.forward(s, states, gates, *inputs, rows, turns)
    saved, gradient = gates.get(), in_place(rig, dh)
    biases = output(rig, channels), output(rig, channels)
    partial = output(rig, *loop.partial_shape(rows), name="partial")
    loop.backward(s, gradient, gates, *biases, partial, inputs[2], rows, turns)
    partial.get()
    sums = np.concatenate([bias.get() for bias in biases])
    return states.get(), saved, gradient.get(), gates.get(), sums


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("precision", FACTORS)
@pytest.mark.parametrize(("rows", "channels", "turns"), SIZES)
def test_forward_and_backward(
    rig: Rig, rows: int, channels: int, turns: int, precision: Precision, seed: int
) -> None:
    arrays, dh = make(seed, rows, channels), normal(9, rows, channels)
    found = run(rig, arrays, dh, turns, precision)
    want = *forward_twin(wide(*arrays), turns), *backward_twin(wide(*arrays), *wide(dh), turns)
    names = "states", "gates", "dh", "dgates", "dbiases"
    for name, got, wanted in zip(names, found, want, strict=True):
        assert_close(got, wanted, CLOSE[precision], name)
    for first, second in zip(found, run(rig, arrays, dh, turns, precision), strict=True):
        assert_same_bits(first, second)


def test_factors_are_rounded_where_asked(rig: Rig) -> None:
    arrays, dh = make(0, 32, 64), normal(9, 32, 64)
    exact, rounded = (run(rig, arrays, dh, 2, precision) for precision in FACTORS)
    for first, second in zip(exact[1:], rounded[1:], strict=True):
        assert (first != second).mean() > 0.5


@pytest.mark.parametrize("precision", FACTORS)
def test_a_block_of_more_than_one_group(rig: Rig, precision: Precision) -> None:
    """2065 rows are 130 times 16: 65 blocks of two, the last one with a row and nothing."""
    assert GatedLoop(rig.library, 16, precision).partial_shape(2065) == (65, 32)
    arrays, dh = make(0, 2065, 16), normal(9, 2065, 16)
    found = run(rig, arrays, dh, 2, precision)
    want = *forward_twin(wide(*arrays), 2), *backward_twin(wide(*arrays), *wide(dh), 2)
    for got, wanted in zip(found, want, strict=True):
        assert_close(got, wanted, 8 * CLOSE[precision])  # biases: 4130 terms that cancel


@pytest.mark.parametrize("turns", [0, 2])
@pytest.mark.parametrize("rows", [0, 5])
def test_no_rows_and_no_turns(rig: Rig, rows: int, turns: int) -> None:
    arrays, dh = make(0, rows, 8), normal(9, rows, 8)
    states, _, first, _, biases = run(rig, arrays, dh, turns, Precision.FP32)
    np.testing.assert_array_equal(states[0], arrays[0] + arrays[1])
    assert np.isfinite(first).all()
    assert biases.any() == (rows > 0 and turns > 0)


def test_backward_adds_where_asked(rig: Rig) -> None:
    arrays, dh = make(0, 33, 24), normal(9, 33, 24)
    before = normal(5, 24), normal(6, 24)
    loop = GatedLoop(rig.library, 24, Precision.FP32)
    states, gates = output(rig, 3, 33, 24), output(rig, 2, 33, 48)
    inputs, biases = [rig.put(array) for array in arrays], [rig.put(b) for b in before]
    loop.forward(rig.stream, states, gates, *inputs, 33, 2)
    partial = output(rig, *loop.partial_shape(33))
    loop.backward(
        rig.stream, in_place(rig, dh), gates, *biases, partial, inputs[2], 33, 2, accumulate=True
    )
    _, _, sums = backward_twin(wide(*arrays), *wide(dh), 2)
    got = np.concatenate([rig.get(bias) for bias in biases])
    assert_close(got, np.concatenate(before) + sums, CLOSE[Precision.FP32])


@pytest.mark.parametrize(
    ("channels", "precision"),
    [(12, Precision.FP32), (136, Precision.FP32), (0, Precision.TF32), (64, Precision.BF16)],
)
def test_what_has_no_kernel_is_refused(rig: Rig, channels: int, precision: Precision) -> None:
    assert not GatedLoop.fits(channels, precision)
    with pytest.raises(ConfigError, match=f"got {channels} and {precision}: make each turn of"):
        GatedLoop(rig.library, channels, precision)
