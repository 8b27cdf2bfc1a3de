"""After a refused or an aborted capture the lists and the sums are those of before it."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.errors import CaptureAllocationError
from lowgraph.memory import PersistentPool, PoolStats, download, upload
from lowgraph.memory.passes import covered
from tests.memory.fakes import make_pool
from tests.support.rig import Rig

KIB = 256  # elements of float32


def figures(pool: PersistentPool) -> PoolStats:
    """All figures but the number of refusals, which is what a refusal changes."""
    return dataclasses.replace(pool.stats(), refused=0)


@pytest.mark.parametrize("seed", range(10))
def test_an_aborted_window_changes_no_figure(seed: int) -> None:
    chance = random.Random(seed)
    pool, upstream = make_pool()
    kept = [pool.take(f"p{n}", chance.randint(1, 3000)) for n in range(12)]
    for piece in kept[::3]:
        pool.give_back(piece)
    before, blocks, allocs = figures(pool), pool.free_blocks(), upstream.allocs
    pool.begin_window("step")
    mine = []
    for _ in range(30):
        try:
            mine.append(pool.take("t", chance.randint(1, 3000)))
        except CaptureAllocationError:
            if mine:
                pool.give_back(mine.pop(0))
    pool.abort_window()
    assert figures(pool) == before and pool.free_blocks() == blocks
    assert upstream.allocs == allocs and not any(piece.alive for piece in mine)


def test_ids_and_generations_go_on_after_an_abort() -> None:
    """A slice of an aborted window must never be mistaken for a later one at its address."""
    pool, _ = make_pool()
    pool.give_back(pool.take("first", KIB))
    pool.begin_window("step")
    lost = pool.take("lost", KIB)
    pool.abort_window()
    later = pool.take("later", KIB)
    assert later.address == lost._address
    assert later.id > lost.id and later.generation == lost.generation + 1


def test_what_another_graph_releases_in_a_window_is_not_lost_by_its_abort() -> None:
    pool, _ = make_pool()
    graph = object()
    piece = pool.take("held", KIB)
    pool.hold(piece, graph)
    pool.give_back(piece)
    pool.begin_window("step")
    pool.release(graph)
    with pytest.raises(CaptureAllocationError):
        pool.take("mine", KIB)  # its kernels may still be in flight: not for this window
    pool.abort_window()
    stats = pool.stats()
    assert stats.free == stats.reserved == 1024 and stats.retained == 0
    assert [block.nbytes for block in pool.free_blocks()] == [1024]


def test_what_is_released_in_a_window_is_free_after_its_end_too() -> None:
    pool, _ = make_pool()
    graph = object()
    piece = pool.take("held", KIB)
    pool.hold(piece, graph)
    pool.give_back(piece)
    pool.begin_window("step")
    pool.release(graph)
    pool.end_window(object())
    assert pool.take("next", KIB).address == piece._address


def test_a_lasting_slice_is_refused_in_a_window() -> None:
    pool, _ = make_pool()
    pool.give_back(pool.take("x", KIB))
    blocks = pool.free_blocks()
    pool.begin_window("step")
    with pytest.raises(CaptureAllocationError, match=r"'lasting' .* take it before the step"):
        pool.take("lasting", KIB, lasting=True)
    pool.abort_window()
    assert pool.free_blocks() == blocks and pool.stats().slices == 0


def test_used_counts_memory_once_and_is_what_the_graph_retains() -> None:
    pool, _ = make_pool()

    def body() -> None:
        pool.give_back(pool.take("first", KIB))
        pool.take("second", KIB)
        pool.take("third", 2 * KIB)

    with pool.priming("step") as primed:
        body()
    assert (primed.figures.bytes, primed.figures.used, primed.figures.peak) == (4096, 3072, 3072)
    graph = object()
    pool.begin_window("step", primed)
    body()
    window = pool.end_window(graph)
    assert (window.bytes, window.used, window.grown) == (4096, 3072, 0)
    assert pool.retained(graph) == window.used
    assert "3 slices, 4.00 KiB in all over 3.00 KiB, peak 3.00 KiB" in window.text()


def test_covered_is_the_union() -> None:
    assert covered([]) == 0
    assert covered([(0, 10), (5, 15), (20, 30), (22, 24)]) == 25


def test_a_miss_names_the_primed_peak() -> None:
    pool, _ = make_pool()
    with pool.priming("step") as primed:
        pool.give_back(pool.take("a", KIB))
        pool.take("b", KIB)
    pool.begin_window("step", primed)
    with pytest.raises(
        CaptureAllocationError, match=r"2.00 KiB in all over 1.00 KiB \(peak 1.00 KiB\)"
    ):
        pool.take("c", 100 * KIB)
    pool.abort_window()


def test_a_freed_block_is_filled_with_nan_on_request(rig: Rig) -> None:
    """On either device: what a stale address reads then is NaN, not the old values."""
    pool = PersistentPool(rig.device, poison=False, fill_stream=rig.stream)
    piece = pool.take("x", 1000)
    upload(piece, np.ones(1000, np.float32), rig.stream)
    address = piece.address
    pool.give_back(piece)
    stale = np.zeros(1000, np.float32)
    driver.memory.copy_dtoh_async(stale.ctypes.data, address, stale.nbytes, rig.stream)
    rig.sync()
    assert np.isnan(stale).all()
    again = pool.take("y", 1000)
    assert again.address == address and np.isnan(download(again, rig.stream)).all()
    pool.close()


@pytest.mark.host
def test_the_fill_comes_before_the_mark_that_refuses_access(rig: Rig) -> None:
    pool = PersistentPool(rig.device, poison=True, fill_stream=rig.stream)
    pool.give_back(pool.take("x", 1000))
    rig.sync()
    pool.close()
