"""FreeList against a model that keeps a set of free bytes."""

from __future__ import annotations

import random

import pytest

from lowgraph.errors import PoolError
from lowgraph.memory.free_list import ALIGNMENT, Block, FreeList, aligned


def test_sizes_are_rounded_to_the_alignment_and_nothing_more() -> None:
    assert [aligned(n) for n in (0, 1, 255, 256, 257, 1000)] == [256, 256, 256, 256, 512, 1024]


def test_exact_fit_wins_over_the_larger_block_and_ties_go_to_the_lowest_address() -> None:
    blocks = [Block(512, 0x4000, 0x4000), Block(256, 0x9000, 0x9000), Block(256, 0x1000, 0x1000)]
    free = FreeList(blocks)
    assert free.take(256) == Block(256, 0x1000, 0x1000)
    assert free.take(256) == Block(256, 0x9000, 0x9000)
    assert free.take(256) == Block(256, 0x4000, 0x4000)
    assert free.blocks() == (Block(256, 0x4100, 0x4000),)
    assert free.take(512) is None


def test_coalescing_joins_neighbours_of_one_segment_only() -> None:
    blocks = [Block(256, 0x1000, 0x1000), Block(256, 0x1100, 0x1000), Block(256, 0x1200, 0x1200)]
    free = FreeList(blocks)
    assert free.coalesce() == 1
    assert free.blocks() == (Block(512, 0x1000, 0x1000), Block(256, 0x1200, 0x1200))


def test_blocks_are_not_merged_when_given_back() -> None:
    """The hazard of the module docstring: sizes 2, 3, 2 over the blocks [2][2] and [3]."""
    unit = ALIGNMENT
    last = Block(3 * unit, 9 * unit, 9 * unit)
    blocks = [Block(2 * unit, 0, 0), Block(2 * unit, 2 * unit, 0), last]
    sizes = [2 * unit, 3 * unit, 2 * unit]
    kept = FreeList(blocks)
    assert all(kept.take(size) for size in sizes)
    merged = FreeList(blocks)
    merged.coalesce()
    assert [merged.take(size) is not None for size in sizes] == [True, True, False]


def test_a_segment_leaves_only_when_all_of_it_is_free() -> None:
    free = FreeList([Block(512, 0x1000, 0x1000)])
    part = free.take(256)
    assert part is not None and not free.remove_segment(0x1000, 512)
    free.give(part)
    assert not free.remove_segment(0x1000, 512), "two halves are not yet one block"
    free.coalesce()
    assert free.remove_segment(0x1000, 512) and len(free) == 0 and free.largest == 0


def test_overlapping_blocks_are_refused() -> None:
    with pytest.raises(PoolError, match="overlap"):
        FreeList([Block(512, 0x1000, 0x1000), Block(256, 0x1100, 0x1000)])


@pytest.mark.parametrize("seed", range(20))
def test_random_takes_and_gives_agree_with_a_byte_model(seed: int) -> None:
    chance = random.Random(seed)
    segments = {0x10000: 4096, 0x11000: 8192, 0x90000: 2048}
    free = FreeList(Block(size, base, base) for base, size in segments.items())
    all_units = {u for base, size in segments.items() for u in range(base, base + size, ALIGNMENT)}
    model, held = set(all_units), []
    for _ in range(400):
        if held and chance.random() < 0.45:
            block = held.pop(chance.randrange(len(held)))
            free.give(block)
            model |= set(range(block.address, block.end, ALIGNMENT))
        else:
            size = ALIGNMENT * chance.randint(1, 9)
            biggest = free.largest
            block = free.take(size)
            assert (block is None) == (biggest < size)
            if block is not None:
                units = set(range(block.address, block.end, ALIGNMENT))
                assert units <= model and block.nbytes == size
                end = block.segment + segments[block.segment]
                assert block.segment <= block.address < block.end <= end
                model -= units
                held.append(block)
        if chance.random() < 0.1:
            free.coalesce()
        assert free.total == len(model) * ALIGNMENT
    for block in held:
        free.give(block)
    free.coalesce()
    whole = tuple(Block(size, base, base) for base, size in sorted(segments.items()))
    assert free.blocks() == whole
