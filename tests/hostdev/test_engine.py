"""The engine runs a launch: every thread once, barriers, shared memory, atomics, both workers."""

from __future__ import annotations

from ctypes import c_int
from pathlib import Path

import numpy as np
import pytest

from tests.hostdev.harness import Engine, Image, build_kernels

pytestmark = pytest.mark.host
ODD_SIZES = (1, 2, 31, 32, 33, 64, 257, 1000, 1024)


@pytest.fixture(scope="module")
def barriers(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Image:
    return build_kernels("barriers", tmp_path_factory.mktemp("barriers"))


@pytest.fixture(params=(1, 2, 3))
def workers(request: pytest.FixtureRequest, engine: Engine) -> int:
    engine.library.harness_workers(request.param)
    return int(request.param)


@pytest.mark.parametrize("threads", ODD_SIZES)
def test_block_sum_in_dynamic_shared_memory(
    engine: Engine, barriers: Image, workers: int, threads: int
) -> None:
    blocks = 7
    x = np.arange(blocks * threads - threads // 2, dtype=np.float32) % 17
    padded = np.zeros(blocks * threads, np.float32)
    padded[: x.size] = x
    y = engine.empty(blocks)
    fault = engine.launch(
        barriers["block_sum"], blocks, threads, y, engine.put(x), c_int(x.size), shared=4 * threads
    )
    assert fault.code == 0, fault.text
    np.testing.assert_array_equal(y.get(), padded.reshape(blocks, threads).sum(1))


@pytest.mark.parametrize("block", [(1, 1, 1), (31, 1, 1), (33, 3, 1), (5, 7, 9), (257, 1, 1)])
def test_static_shared_memory_in_three_dimensions(
    engine: Engine, barriers: Image, workers: int, block: tuple[int, int, int]
) -> None:
    grid, threads = (3, 2, 2), int(np.prod(block))
    x = np.random.default_rng(threads).integers(0, 1 << 30, (12, threads)).astype(np.int32)
    y = engine.empty(x.shape, np.int32)
    fault = engine.launch(barriers["reverse_block"], grid, block, y, engine.put(x))
    assert fault.code == 0, fault.text
    np.testing.assert_array_equal(y.get(), x[:, ::-1])


def test_coordinates_of_every_thread_and_no_switch(
    engine: Engine, barriers: Image, workers: int
) -> None:
    grid, block = (4, 3, 2), (5, 3, 2)
    y = engine.empty((2, 3, 4, 2, 3, 5), np.int64)
    engine.library.harness_switches()
    assert engine.launch(barriers["coordinates"], grid, block, y).code == 0
    bz, by, bx, z, yy, xx = np.indices(y.get().shape)
    places = bx + 100 * (by + 100 * bz)
    np.testing.assert_array_equal(y.get(), places * 10**9 + xx + 1000 * (yy + 1000 * z))
    assert engine.library.harness_switches() == 0


@pytest.mark.parametrize("threads", (1, 31, 33, 257))
def test_barrier_votes_leave_out_threads_that_returned(
    engine: Engine, barriers: Image, workers: int, threads: int
) -> None:
    blocks, rng = 9, np.random.default_rng(threads)
    flags = rng.integers(0, 2, (blocks, threads)).astype(np.int32)
    flags[0], flags[1] = 0, 1
    skip = rng.integers(0, 2, (blocks, threads)).astype(np.int32)
    skip[:, -1] = 0  # one thread of each block is left to write
    counts = engine.empty((blocks, 3), np.int32)
    fault = engine.launch(
        barriers["barrier_votes"], blocks, threads, counts, engine.put(flags), engine.put(skip)
    )
    assert fault.code == 0, fault.text
    present = np.where(skip == 0, flags, -1)
    wanted = [[(row == 1).sum(), not (row == 0).any(), (row == 1).any()] for row in present]
    np.testing.assert_array_equal(counts.get(), np.array(wanted, np.int32))


@pytest.mark.parametrize("threads", (1, 31, 33, 257))
def test_nobody_waits_for_threads_that_return_later(
    engine: Engine, barriers: Image, workers: int, threads: int
) -> None:
    rounds = np.random.default_rng(threads).integers(0, 9, threads).astype(np.int32)
    counts = engine.put(np.full((9, threads), -1, np.int32))
    fault = engine.launch(barriers["leave_in_turn"], 1, threads, counts, engine.put(rounds))
    assert fault.code == 0, fault.text
    present = rounds > np.arange(9)[:, None]
    wanted = np.where(present, present.sum(1, keepdims=True), -1)
    np.testing.assert_array_equal(counts.get(), wanted)


@pytest.mark.parametrize("threads", (1, 31, 33, 257))
def test_barrier_rounds_lose_no_wake_up(
    engine: Engine, barriers: Image, workers: int, threads: int
) -> None:
    blocks, rounds = 5, 40
    seen = engine.put(np.zeros((blocks, threads), np.int32))
    fault = engine.launch(barriers["token_ring"], blocks, threads, seen, c_int(rounds))
    assert fault.code == 0, fault.text
    assert (seen.get() == rounds).all()


def test_dynamic_shared_memory_is_poisoned_for_each_block(
    engine: Engine, barriers: Image, workers: int
) -> None:
    seen = engine.empty(64, np.uint32)
    assert engine.launch(barriers["shared_at_start"], 64, 8, seen, shared=64).code == 0
    assert (seen.get() == 0xFFFFFFFF).all()


def test_atomics_over_many_blocks(engine: Engine, barriers: Image, workers: int) -> None:
    total, summed = engine.put(np.zeros(1, np.int32)), engine.put(np.zeros(1, np.float32))
    highest = engine.put(np.zeros(1, np.uint32))
    for _ in range(3):
        fault = engine.launch(
            barriers["count_atomically"], 500, 65, total, summed, highest, c_int(20)
        )
        assert fault.code == 0, fault.text
    assert total.get()[0] == summed.get()[0] == 3 * 500 * 65 * 20
    assert highest.get()[0] == 500 * 65 - 1


def test_table_entry_tells_the_kernel(barriers: Image) -> None:
    entry = barriers["reverse_block"]
    assert entry.name == b"reverse_block"
    assert (entry.param_count, entry.max_threads, entry.static_shared) == (2, 1024, 4096)
    votes = barriers["count_atomically"]
    assert [votes.sizes[i] for i in range(4)] == [8, 8, 8, 4]
    assert [votes.offsets[i] for i in range(4)] == [0, 8, 16, 24]


def test_images_are_loaded_under_their_own_names(
    engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = Path(tmp_path_factory.mktemp("two"))
    first, second = build_kernels("barriers", folder), build_kernels("faults", folder)
    assert first["block_sum"].name == b"block_sum"
    assert second["fill"].name == b"fill"
