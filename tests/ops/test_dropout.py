"""Dropout and its random state: masks by the NumPy twin, one advance a step, backward's mask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lowgraph import counters
from lowgraph.errors import ConfigError, PhaseError
from lowgraph.memory import PersistentPool
from lowgraph.ops import Dropout, RandomState
from lowgraph.ops.dropout import threshold_of
from lowgraph.ops.philox import dropout_words
from lowgraph.ops.random_state import RANDOM_STATE_DTYPE
from tests.ops.compare import Array, assert_same_bits, in_place, normal, output
from tests.support.rig import Rig

SIZES = [1, 3, 4, 31, 511, 513, 1030]
SEEDS = [0, 2**63 + 5]


@pytest.fixture
def pool(rig: Rig) -> Iterator[PersistentPool]:
    made = PersistentPool(rig.device)
    yield made
    made.close()


def state_of(rig: Rig, pool: PersistentPool, seed: int = 1, name: str = "random") -> RandomState:
    return RandomState(pool=pool, library=rig.library, stream=rig.stream, seed=seed, name=name)


def twin(x: Array, seed: int, counter: int, rate: float) -> Array:
    """Dropout in NumPy: the mask by integers, the product in float32 as the kernel has it."""
    keep = dropout_words(seed, counter, x.size) >= round(rate * 2**32)
    return np.where(keep, x * np.float32(1 / (1 - rate)), np.float32(0)).astype(np.float32)


def forward(rig: Rig, state: RandomState, x: Array, rate: float) -> tuple[Any, Any]:
    """One step of one dropout; returns y and what was saved, on the device."""
    y, saved = output(rig, x.size), rig.empty(2, np.uint64, name="saved")
    with state.step(rig.stream) as draws:
        Dropout(rig.library).forward(rig.stream, y, saved, rig.put(x), draws, rate, x.size)
    return y, saved


@pytest.mark.parametrize("edge_seed", SEEDS)
@pytest.mark.parametrize("count", SIZES)
def test_forward_and_backward_are_the_twins(
    rig: Rig, pool: PersistentPool, count: int, edge_seed: int
) -> None:
    x, dy, rate = normal(0, count), normal(1, count), 0.3
    state = state_of(rig, pool)
    state.write(edge_seed, 2**32 - 2)  # the counter carries into its high word

    y, saved = forward(rig, state, x, rate)
    dx = output(rig, count)
    Dropout(rig.library).backward(rig.stream, dx, rig.put(dy), saved, rate, count)

    assert_same_bits(y.get(), twin(x, edge_seed, 2**32 - 2, rate), "y")
    assert_same_bits(dx.get(), twin(dy, edge_seed, 2**32 - 2, rate), "dx")
    assert rig.get(saved).tolist() == [edge_seed, 2**32 - 2]
    assert state.read() == (edge_seed, 2**32 - 2 + -(-count // 4))
    assert state.draws == -(-count // 4)


@pytest.mark.parametrize("count", [5, 513])
def test_in_place(rig: Rig, pool: PersistentPool, count: int) -> None:
    x, state, ops = normal(0, count), state_of(rig, pool), Dropout(rig.library)
    saved, y, dx = rig.empty(2, np.uint64), in_place(rig, x), in_place(rig, x)
    with state.step(rig.stream) as draws:
        ops.forward(rig.stream, y, saved, y, draws, 0.5, count)
        ops.backward(rig.stream, dx, dx, saved, 0.5, count)
    assert_same_bits(y.get(), twin(x, 1, 0, 0.5))
    assert_same_bits(dx.get(), y.get(), "the same values under the same mask")


def test_backward_has_the_mask_of_its_own_forward_after_later_draws(
    rig: Rig, pool: PersistentPool
) -> None:
    x, state = np.ones(100, np.float32), state_of(rig, pool)
    first, saved = forward(rig, state, x, 0.5)
    second, _ = forward(rig, state, x, 0.5)
    state.seed(9)
    dx = output(rig, 100)
    Dropout(rig.library).backward(rig.stream, dx, rig.put(x), saved, 0.5, 100)
    assert_same_bits(dx.get(), first.get())
    assert (first.get() != second.get()).any(), "the next step draws other numbers"


def test_two_dropouts_of_a_step_take_counters_of_their_own(rig: Rig, pool: PersistentPool) -> None:
    x, state, ops = np.ones(30, np.float32), state_of(rig, pool), Dropout(rig.library)
    a, b = output(rig, 30), output(rig, 30)
    device_x, saved = rig.put(x), [rig.empty(2, np.uint64) for _ in range(2)]
    with counters.scope() as counts, state.step(rig.stream) as draws:
        ops.forward(rig.stream, a, saved[0], device_x, draws, 0.5, 30)
        ops.forward(rig.stream, b, saved[1], device_x, draws, 0.5, 30)
    assert counts.by_name == {"cuLaunchKernelEx": 3}, "two forwards and one advance"
    assert_same_bits(a.get(), twin(x, 1, 0, 0.5))
    assert_same_bits(b.get(), twin(x, 1, 8, 0.5))
    assert state.draws == 16 and state.read() == (1, 16)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.999])
def test_the_share_kept_and_the_mean_are_right(rig: Rig, pool: PersistentPool, rate: float) -> None:
    """Within 5 standard deviations of a binomial (a fixed seed: no flakes)."""
    count = 20_000
    y, _ = forward(rig, state_of(rig, pool), np.ones(count, np.float32), rate)
    kept = int((y.get() != 0).sum())
    assert abs(kept - count * (1 - rate)) <= 5 * (count * rate * (1 - rate)) ** 0.5
    assert set(np.unique(y.get()).tolist()) <= {0.0, float(np.float32(1 / (1 - rate)))}


def test_a_rate_that_is_none_is_refused(rig: Rig, pool: PersistentPool) -> None:
    for rate in (-0.1, 1.0, float("nan")):
        with pytest.raises(ConfigError, match=r"rate must be in \[0, 1\)"):
            forward(rig, state_of(rig, pool, name=f"at {rate}"), np.ones(4, np.float32), rate)
    assert threshold_of(1 - 2**-40)[0] == 2**32 - 1, "the threshold stays a 32-bit word"


def test_nothing_to_drop_launches_nothing(rig: Rig, pool: PersistentPool) -> None:
    state, dropout = state_of(rig, pool), Dropout(rig.library)  # which may load its kernels
    with counters.scope() as counts, state.step(rig.stream) as draws:
        dropout.forward(rig.stream, 0, 0, 0, draws, 0.5, 0)
        dropout.backward(rig.stream, 0, 0, 0, 0.5, 0)
    assert counts.by_name == {} and state.draws == 0


def test_a_step_that_raises_advances_nothing(rig: Rig, pool: PersistentPool) -> None:
    state = state_of(rig, pool)
    with pytest.raises(ZeroDivisionError), state.step(rig.stream) as draws:
        draws.take(5)
        raise ZeroDivisionError
    assert state.read() == (1, 0)
    with state.step(rig.stream) as draws:
        assert draws.take(2) == 0, "and the next one begins anew"
    assert state.read() == (1, 2)


def test_misuse_of_the_state_is_refused(rig: Rig, pool: PersistentPool) -> None:
    state = state_of(rig, pool)
    with state.step(rig.stream), pytest.raises(PhaseError, match="open already"):
        state.step(rig.stream).__enter__()
    for bad in (-1, 2**64):
        with pytest.raises(ConfigError, match="seed must be an integer from 0"):
            state.seed(bad)
    state.close()
    state.close()
    assert RANDOM_STATE_DTYPE.itemsize == 16
