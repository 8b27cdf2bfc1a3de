"""Pinned staging on a real device: transfers, fixed slots, and arrays over slices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from lowgraph import counters, driver
from lowgraph.errors import DriverError, PoolError
from lowgraph.hostdev import control
from lowgraph.memory import Arena, PersistentPool, StagingSlot, download, fill_zero, upload
from lowgraph.specs import TensorSpec
from tests.support.rig import Rig

_RELEASES = ("cuEventDestroy", "cuMemFreeHost", "cuMemFree")


@pytest.fixture
def pool(rig: Rig) -> Iterator[PersistentPool]:
    made = PersistentPool(rig.device)
    yield made
    rig.sync()
    made.close()


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (1 << 18,), (700_001,), (0,)])
def test_values_come_back_as_they_went(rig: Rig, pool: PersistentPool, shape: tuple[int]) -> None:
    values = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    piece = pool.take("x", shape)
    upload(piece, values, rig.stream)
    assert np.array_equal(download(piece, rig.stream), values)


def test_the_source_may_change_right_after_the_upload(rig: Rig, pool: PersistentPool) -> None:
    values = np.arange(3 << 18, dtype=np.float32)
    piece = pool.take("x", values.shape)
    kept = values.copy()
    upload(piece, values, rig.stream)
    values[:] = -1
    assert np.array_equal(download(piece, rig.stream), kept)


def test_other_shapes_and_unsafe_dtypes_are_refused(rig: Rig, pool: PersistentPool) -> None:
    piece = pool.take("x", (4,), np.int32)
    with pytest.raises(PoolError, match=r"has shape \(4,\), the values \(5,\): .*reshape\(\(4,"):
        upload(piece, np.zeros(5, np.int32), rig.stream)
    with pytest.raises(PoolError, match=r"holds int32, the values float64: .*np\.int32"):
        upload(piece, np.zeros(4), rig.stream)
    upload(piece, np.arange(4), rig.stream)
    assert download(piece, rig.stream).tolist() == [0, 1, 2, 3]


def test_transfers_use_asynchronous_copies_from_pinned_memory_only(
    rig: Rig, pool: PersistentPool
) -> None:
    piece = pool.take("x", 1000)
    upload(piece, np.ones(1000, np.float32), rig.stream)
    with counters.scope() as counts:
        upload(piece, np.ones(1000, np.float32), rig.stream)
        download(piece, rig.stream)
    assert set(counts.by_name) == {
        "cuMemcpyHtoDAsync",
        "cuMemcpyDtoHAsync",
        "cuEventRecord",
        "cuEventSynchronize",
    }


def test_a_slot_keeps_its_address_and_is_not_rewritten_under_a_copy(
    rig: Rig, pool: PersistentPool
) -> None:
    slot = pool.staging.slot("input", (1 << 20,))
    piece = pool.take("x", 1 << 20)
    address = slot.address
    for value in range(5):
        slot.write(value)
        slot.copy_to(piece, rig.stream)
        slot.write(99)  # must wait for the copy
        assert (download(piece, rig.stream) == value).all() and slot.address == address


def test_a_mapped_slot_is_one_memory_for_host_and_device(rig: Rig, pool: PersistentPool) -> None:
    slot = pool.staging.slot("ring", (8,), np.int32)
    slot.write(0)
    driver.memory.memset_d32_async(slot.device_address, 7, 4, rig.stream)
    rig.sync()
    assert slot.array.tolist() == [7, 7, 7, 7, 0, 0, 0, 0]


def test_slots_are_named_once_sized_and_closed_once(rig: Rig, pool: PersistentPool) -> None:
    slot = pool.staging.slot("input", (4,))
    with pytest.raises(PoolError, match="already"):
        pool.staging.slot("input", (4,))
    with pytest.raises(PoolError, match="has 16 bytes, slice 'x' 32 bytes"):
        slot.copy_to(pool.take("x", 8), rig.stream)
    pool.staging.close()
    pool.staging.close()
    with pytest.raises(PoolError, match="closed"):
        slot.write(1)
    StagingSlot("lone", (3,)).close()


@pytest.mark.host
@pytest.mark.parametrize("call", ["cuMemFree", "cuMemFreeHost", "cuEventDestroy"])
def test_a_close_that_fails_has_tried_everything(rig: Rig, call: str) -> None:
    pool = PersistentPool(rig.device)
    for name in ("x", "y"):
        upload(pool.take(name, 1000), np.ones(1000, np.float32), rig.stream)
    rig.sync()
    before = {name: control.calls(name) for name in _RELEASES}
    control.fail(call, 1, 999)
    with pytest.raises(DriverError, match=f"{call}.* failed: 999"):
        pool.close()
    assert {name: control.calls(name) - before[name] for name in _RELEASES} == dict.fromkeys(
        _RELEASES, 2
    )
    pool.close()


@pytest.mark.host
def test_array_is_the_device_memory_itself(rig: Rig, pool: PersistentPool) -> None:
    piece = pool.take("x", (2, 3))
    upload(piece, np.arange(6, dtype=np.float32).reshape(2, 3), rig.stream)
    rig.sync()
    assert piece.array.tolist() == [[0, 1, 2], [3, 4, 5]]
    piece.array[1] = 9
    assert download(piece, rig.stream).tolist() == [[0, 1, 2], [9, 9, 9]]


@pytest.mark.gpu
def test_array_is_a_cupy_view(rig: Rig, pool: PersistentPool) -> None:
    piece = pool.take("x", (2, 3))
    upload(piece, np.arange(6, dtype=np.float32).reshape(2, 3), rig.stream)
    rig.sync()
    view = piece.array
    assert view.data.ptr == piece.address and view.shape == (2, 3)
    assert view.get().tolist() == [[0, 1, 2], [3, 4, 5]]


def test_an_arena_is_zeroed_as_a_whole(rig: Rig, pool: PersistentPool) -> None:
    arena = Arena(pool, "grads", [TensorSpec("w", (3, 7)), TensorSpec("b", (5,))])
    upload(arena.flat, np.full(arena.elements, 3, np.float32), rig.stream)
    upload(arena["b"], np.arange(5, dtype=np.float32), rig.stream)
    assert download(arena["w"], rig.stream).sum() == 63
    fill_zero(arena["w"], rig.stream)
    assert download(arena["b"], rig.stream).tolist() == [0, 1, 2, 3, 4]
    arena.zero(rig.stream)
    assert not download(arena.flat, rig.stream).any()


@pytest.mark.host
def test_poison_shows_a_freed_slice_as_nan(rig: Rig) -> None:
    pool = PersistentPool(rig.device)
    whole = pool.take("whole", 1000)
    address = whole.address
    upload(whole, np.zeros(1000, np.float32), rig.stream)
    pool.give_back(whole)
    fresh = pool.take("fresh", 1000)
    assert fresh.address == address
    assert np.isnan(download(fresh, rig.stream)).all()
    pool.close()
