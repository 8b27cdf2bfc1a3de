"""Priming, windows, graphs' holds: the figures, the refusal of a miss, and the way back."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest

from lowgraph.errors import CaptureAllocationError, PoolError
from lowgraph.memory import PersistentPool, Primed
from tests.memory.fakes import make_pool
from tests.support.interleave import lock_asked_for

KIB = 256  # elements of float32


def body(pool: PersistentPool) -> None:
    """A temporary, and two that stay, one of which fits where it was: peak 3 KiB, sum 4 KiB."""
    first = pool.take("first", KIB)
    pool.give_back(first)
    pool.take("second", 2 * KIB)
    pool.take("third", KIB)


def prime(pool: PersistentPool, run: Callable[[PersistentPool], None] = body) -> Primed:
    with pool.priming("step") as primed:
        run(pool)
    return primed


def test_an_eager_pass_grows_to_its_peak_and_gives_everything_back() -> None:
    pool, upstream = make_pool()
    for _ in range(3):
        with pool.eager_pass("step") as running:
            body(pool)
    assert running.figures.slices == 3 and running.figures.bytes == 4096
    assert running.figures.peak == 3072 and running.figures.grown == 0
    stats = pool.stats()
    assert stats.slices == 0 and stats.free == stats.reserved == sum(upstream.live.values())


def test_priming_takes_again_what_was_given_back_in_it_and_keeps_it_all() -> None:
    pool, _ = make_pool()
    primed = prime(pool)
    assert (primed.figures.bytes, primed.figures.peak, primed.figures.grown) == (4096, 3072, 3072)
    stats = pool.stats()
    assert (stats.primed, stats.live, stats.free) == (3072, 0, 0)
    outside = pool.take("outside", KIB)
    assert pool.stats().reserved == 4096, "what is primed is nobody else's"
    pool.give_back(outside)


@pytest.mark.parametrize("resting", [0, 16])
def test_the_recorded_pass_takes_the_primed_slices_and_never_asks_the_driver(resting: int) -> None:
    pool, upstream = make_pool(resting=resting)
    primed = prime(pool)
    allocs = upstream.allocs
    pool.begin_window("step", primed)
    body(pool)
    graph = object()
    figures = pool.end_window(graph)
    assert upstream.allocs == allocs and figures.bytes == 4096 and figures.grown == 0
    assert pool.retained(graph) == pool.stats().retained == 4096 - 1024, "'third' reuses 'first'"
    assert pool.stats().primed == 0


def test_no_block_that_a_graph_holds_is_handed_out_until_it_is_released() -> None:
    pool, _ = make_pool()
    primed = prime(pool)
    pool.begin_window("step", primed)
    kept = pool.take("kept", KIB)
    given = pool.take("given", 2 * KIB)
    addresses = {kept.address, given.address}
    pool.give_back(given)
    graph = object()
    pool.end_window(graph)
    assert kept.alive and kept.owner == "step" and not given.alive
    seen = {pool.take(f"s{n}", size).address for n, size in enumerate([KIB, 2 * KIB] * 4)}
    assert not seen & addresses
    pool.release(graph)
    assert not kept.alive
    seen = {pool.take(f"t{n}", size).address for n, size in enumerate([KIB, 2 * KIB] * 4)}
    assert addresses <= seen


def test_a_miss_is_refused_before_the_driver_with_all_that_helps() -> None:
    pool, upstream = make_pool()
    primed = prime(pool)
    pool.begin_window("step", primed)
    pool.take("first", KIB)
    allocs = upstream.allocs
    with pytest.raises(CaptureAllocationError) as refusal:
        pool.take("grown", (100, 100))
    error = refusal.value
    assert upstream.allocs == allocs
    assert error.where is not None and "test_windows.py:" in error.where
    for part in ("'grown' (float32 [100, 100]) (40192 bytes)",
                 "took 3 slices, 4.00 KiB in all over 3.00 KiB",
                 "has taken 1 with 1.00 KiB", "the largest free block has 2048 bytes"):  # fmt: skip
        assert part in error.reason
    assert "before the step" in error.remedy
    pool.abort_window()
    assert pool.stats().refused == 1


def test_an_aborted_window_leaves_lists_and_sums_as_they_were() -> None:
    pool, _ = make_pool()
    outside = pool.take("outside", KIB)
    primed = prime(pool)
    pool.begin_window("a", primed)
    pool.abort_window()
    before, sums = pool.free_blocks(), pool.stats()
    pool.begin_window("b")
    small = pool.take("small", 10)  # splits a block
    body_slice = pool.take("second", KIB)
    pool.give_back(body_slice)
    pool.abort_window()
    after = pool.stats()
    assert pool.free_blocks() == before and not small.alive and outside.alive
    assert (after.live, after.free, after.reserved) == (sums.live, sums.free, sums.reserved)


def test_slices_that_share_a_block_in_a_window_are_not_guarded_by_each_others_bounds() -> None:
    pool, _ = make_pool()
    primed = prime(pool)
    pool.begin_window("step", primed)
    first = pool.take("long", 200)
    pool.give_back(first)
    second = pool.take("short", 100)
    assert second.address == first._address
    notes = pool.device.notes[-2:]  # type: ignore[attr-defined]
    assert [(note[1], note[2]) for note in notes] == [(1024, "live"), (512, "live")]
    pool.end_window(object())


def test_an_exception_in_priming_keeps_nothing() -> None:
    pool, _ = make_pool()
    with pytest.raises(ValueError, match="mine"), pool.priming("step"):
        pool.take("x", KIB)
        raise ValueError("mine")
    stats = pool.stats()
    assert stats.free == stats.reserved == 1024 and stats.primed == 0


def test_a_held_parameter_outlives_its_name() -> None:
    pool, _ = make_pool()
    weight = pool.take("weight", KIB)
    address, graph = weight.address, object()
    pool.hold(weight.part(3, (2,)), graph)
    pool.give_back(weight)
    assert pool.take("next", KIB).address != address
    assert pool.stats().retained == pool.retained(graph) == 1024
    pool.release(graph)
    assert pool.take("last", KIB).address == address


def test_releasing_a_graph_leaves_a_live_parameter_alone() -> None:
    pool, _ = make_pool()
    weight, graph = pool.take("weight", KIB), object()
    pool.hold(weight, graph)
    assert pool.retained(graph) == 0, "it lives anyway"
    pool.release(graph)
    assert weight.alive and pool.stats().live == 1024


def test_wrong_orders_are_refused() -> None:
    pool, _ = make_pool()
    outside = pool.take("outside", KIB)
    with pool.eager_pass("step"):
        with pytest.raises(PoolError, match="a pass of 'step' is running"):
            pool.begin_window("inner")
        with pytest.raises(PoolError, match="'outside' was taken outside this pass of 'step'"):
            pool.give_back(outside)
        with pytest.raises(PoolError, match="trim inside a pass"):
            pool.trim()
        with pytest.raises(PoolError, match="serves a pass of 'step'"):
            pool.close()
    with pytest.raises(PoolError, match="end_window without begin_window"):
        pool.end_window(object())
    with pytest.raises(PoolError, match="abort_window without begin_window"):
        pool.abort_window()


def test_close_is_refused_while_a_graph_holds_memory() -> None:
    pool, upstream = make_pool()
    primed = prime(pool)
    pool.begin_window("step", primed)
    body(pool)
    graph = object()
    pool.end_window(graph)
    with pytest.raises(PoolError, match="serves step: close that first"):
        pool.close()
    pool.release(graph)
    pool.close()
    assert not upstream.live


def test_another_thread_waits_for_the_windows_end_and_is_no_part_of_it() -> None:
    pool, _ = make_pool()
    primed = prime(pool)
    pool.begin_window("step", primed)
    taken: list[int] = []
    other = threading.Thread(target=lambda: taken.append(pool.take("other", KIB).address))
    with lock_asked_for() as asked:
        other.start()
        assert asked.wait(30), "it waits for nobody"
    other.join(0.02)
    assert other.is_alive() and not taken
    mine = pool.take("first", KIB)
    pool.end_window(object())
    other.join(30)
    assert taken and taken[0] != mine.address


@pytest.mark.parametrize("seed", range(15))
def test_a_repeated_random_pass_always_fits_its_window(seed: int) -> None:
    """Priming's promise: the same takes and gives never miss, whatever the pool went through."""
    chance = random.Random(seed)
    pool, upstream = make_pool()
    kept = [pool.take(f"old{n}", chance.randint(1, 2000)) for n in range(20)]
    for piece in kept[::2]:
        pool.give_back(piece)
    script = [(chance.random() < 0.4, chance.randint(1, 3000), chance.random()) for _ in range(60)]

    def run(pool: PersistentPool) -> None:
        mine = []
        for give, size, pick in script:
            if give and mine:
                pool.give_back(mine.pop(int(pick * len(mine))))
            else:
                mine.append(pool.take("t", size))

    primed = prime(pool, run)
    held = pool.stats().primed
    for piece in kept[1::2]:
        pool.give_back(piece)
    allocs = upstream.allocs
    pool.begin_window("step", primed)
    run(pool)
    graph = object()
    figures = pool.end_window(graph)
    assert upstream.allocs == allocs and figures.peak <= pool.retained(graph) <= held
    pool.release(graph)
    assert pool.stats().retained == 0
