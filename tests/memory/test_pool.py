"""PersistentPool over a fake upstream: slices, generations, limits, random use against a model."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from lowgraph.errors import PoolError
from lowgraph.memory import PersistentPool, Slice
from tests.memory.fakes import FakeDevice, make_pool


def test_a_slice_has_its_exact_bytes_at_an_aligned_address() -> None:
    pool, upstream = make_pool()
    piece = pool.take("x", (3, 5), np.float32)
    assert (piece.nbytes, piece.shape, piece.dtype, piece.name) == (60, (3, 5), np.float32, "x")
    assert piece.address % 256 == 0 and upstream.live == {piece.address: 256}
    assert pool.stats().reserved == pool.stats().live == 256


@pytest.mark.parametrize("shape", [-1, (-1, 5), (2, -3, -4), 1.5, (1.5,), ("a",), None])
def test_what_is_no_shape_is_refused(shape: Any) -> None:
    pool, upstream = make_pool()
    with pytest.raises(PoolError, match=r"slice 'x': shape .* must be integers of at least 0"):
        pool.take("x", shape)
    assert upstream.allocs == 0
    with pytest.raises(PoolError, match="must be integers of at least 0"):
        pool.take("y", 30).part(20, shape)


def test_python_objects_are_refused() -> None:
    pool, _ = make_pool()
    with pytest.raises(PoolError, match="elements are Python objects"):
        pool.take("x", 3, object)


def test_a_reused_address_is_a_different_slice() -> None:
    pool, upstream = make_pool()
    first = pool.take("first", 10)
    address = first.address
    pool.give_back(first)
    second = pool.take("second", 12)
    assert second.address == address and upstream.allocs == 1
    assert (first.generation, second.generation) == (1, 2) and first.id != second.id
    with pytest.raises(PoolError, match=r"'first' \(id 1, generation 1\) was given back"):
        _ = first.address
    assert pool.who_owns(address + 8) is second


def test_giving_back_twice_a_part_or_a_foreign_slice_is_refused() -> None:
    pool, _ = make_pool()
    other, _ = make_pool()
    piece = pool.take("x", 10)
    with pytest.raises(PoolError, match="'row' is a part of 'x'"):
        pool.give_back(piece.part(0, (5,), "row"))
    with pytest.raises(PoolError, match="not held by this pool"):
        other.give_back(piece)
    pool.give_back(piece)
    with pytest.raises(PoolError, match="second time"):
        pool.give_back(piece)


def test_parts_lie_inside_and_die_with_the_whole() -> None:
    pool, _ = make_pool()
    whole = pool.take("x", (4, 8))
    row = whole.part(8, (8,), "row")
    assert row.address == whole.address + 32 and row.root is whole and row.id == whole.id
    with pytest.raises(PoolError, match="elements 30 to 38 do not lie in 'x', which has 32"):
        whole.part(30, (8,))
    pool.give_back(whole)
    assert not row.alive
    with pytest.raises(PoolError, match="given back"):
        _ = row.address


def test_the_limit_and_an_exhausted_device_say_what_is_held() -> None:
    pool, _ = make_pool(limit=1024)
    kept = pool.take("kept", 128)
    with pytest.raises(
        PoolError, match=r"'big' .* asked for at .*test_pool.py:\d+ .*limit is 1.00 K"
    ):
        pool.take("big", 200)
    full, _ = make_pool(size=1024)
    full.take("kept", 128)
    with pytest.raises(PoolError, match="no memory left; 512 bytes are held"):
        full.take("big", 200)
    assert kept.alive and pool.stats().driver_allocs == 1


def test_free_segments_are_given_back_before_memory_is_called_short() -> None:
    pool, upstream = make_pool(size=1024)
    pool.give_back(pool.take("a", 128))
    pool.give_back(pool.take("b", 64))
    piece = pool.take("whole", 256)
    assert list(upstream.live.values()) == [1024] and piece.nbytes == 1024


def test_trim_and_close_return_the_memory_and_close_is_idempotent() -> None:
    pool, upstream = make_pool()
    a, b = pool.take("a", 100), pool.take("b", 100)
    pool.give_back(a)
    assert pool.trim() == 512 and list(upstream.live) == [b.address]
    pool.close()
    pool.close()
    assert not upstream.live and not b.alive
    with pytest.raises(PoolError, match="closed"):
        pool.take("c", 1)


def test_the_device_is_told_of_bounds_names_and_ends() -> None:
    pool, _ = make_pool()
    first = pool.take("first", 10)
    address = first.address
    pool.give_back(first)
    pool.take("second", 3)
    pool.take("empty", 0)
    assert notes_of(pool) == [
        (address, 40, "live", "first"),
        (address, 256, "free", "first"),
        (address, 12, "live", "second"),
    ]


def test_without_poison_an_end_is_not_told() -> None:
    pool, _ = make_pool(poison=False)
    pool.give_back(pool.take("first", 10))
    assert [note[2] for note in notes_of(pool)] == ["live"]


def notes_of(pool: PersistentPool) -> list[tuple[int, int, str, str]]:
    device = pool.device
    assert isinstance(device, FakeDevice)
    return device.notes


def test_array_is_a_view_of_the_slices_shape() -> None:
    pool, _ = make_pool()
    assert pool.take("x", (2, 3), np.int64).array.shape == (2, 3)
    assert pool.take("none", (0, 3)).array.size == 0


def test_blocks_that_rest_are_handed_out_later() -> None:
    pool, _ = make_pool(resting=2)
    first = pool.take("first", 10)
    address = first.address
    pool.give_back(first)
    others = [pool.take(f"other {i}", 10) for i in range(3)]
    assert address not in [piece.address for piece in others]
    for piece in others[:2]:
        pool.give_back(piece)
    assert pool.take("again", 10).address == address, "two were given after it"
    assert pool.stats().free == 512


@pytest.mark.parametrize("room", [{"limit": 512}, {"size": 512}], ids=["limit", "device"])
def test_blocks_that_rest_are_room_where_there_is_no_other(room: dict[str, int]) -> None:
    pool, upstream = make_pool(resting=16, **room)
    pool.give_back(pool.take("first", 128))
    for name in ("second", "third"):
        pool.take(name, 64)  # each half of what rests
    assert upstream.allocs == 1
    with pytest.raises(PoolError, match="does not fit"):
        pool.take("fourth", 64)


def test_nothing_rests_in_a_pool_without_poison() -> None:
    pool, _ = make_pool(resting=16, poison=False)
    first = pool.take("first", 10)
    address = first.address
    pool.give_back(first)
    assert pool.take("second", 10).address == address


@pytest.mark.parametrize("resting", [0, 1, 16])
@pytest.mark.parametrize("seed", range(15))
def test_random_use_never_overlaps_and_the_sums_hold(seed: int, resting: int) -> None:
    chance = random.Random(seed)
    pool, upstream = make_pool(resting=resting)
    live: list[Slice] = []
    for step in range(300):
        if live and chance.random() < 0.5:
            pool.give_back(live.pop(chance.randrange(len(live))))
        else:
            live.append(pool.take(f"s{step}", chance.choice([1, 60, 64, 65, 500, 1000, 4096])))
        if chance.random() < 0.03:
            pool.trim()
        _check(pool, live, upstream.live)
    for piece in live:
        pool.give_back(piece)
    pool.trim()
    assert not upstream.live and pool.stats().reserved == 0


def _check(pool: PersistentPool, live: list[Slice], segments: dict[int, int]) -> None:
    ends = 0
    for piece in sorted(live, key=lambda piece: piece.address):
        assert piece.address >= ends, "two live slices overlap"
        ends = piece.address + piece.nbytes
        assert any(base <= piece.address and ends <= base + size for base, size in segments.items())
        assert pool.who_owns(piece.address + piece.nbytes - 1) is piece
    stats = pool.stats()
    assert stats.reserved == sum(segments.values())
    assert stats.reserved == stats.live + stats.primed + stats.retained + stats.free
    assert stats.slices == len(live) == stats.takes - stats.gives
