"""Free blocks of device memory, as a pure data structure: no driver, no names, no policy.

A *segment* is one driver allocation, given by its base address; a block never spans two segments.
Blocks that are given back are **not** merged at once. A primed pass gives back a set of blocks and
takes the same sizes again in the same order; with eager merging an early small request could split
a merged block that a later request needs, and the pass would miss although nothing changed. Exact
fits over unmerged blocks cannot fail that way. `coalesce()` is for the moment before growing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from lowgraph.errors import PoolError

__all__ = ["ALIGNMENT", "Block", "FreeList", "aligned"]

ALIGNMENT = 256  # bytes: what vector loads, cuBLAS and the texture-free copy paths ask for at most


def aligned(nbytes: int) -> int:
    """`nbytes` rounded up to ALIGNMENT; an empty tensor takes one unit, so it has an address."""
    return max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)


class Block(NamedTuple):
    """A run of bytes inside one segment; ordered by size, then address."""

    nbytes: int
    address: int
    segment: int

    @property
    def end(self) -> int:
        """First address behind the block."""
        return self.address + self.nbytes


class FreeList:
    """Best fit over free blocks: an exact size first, else the smallest larger one, split.

    Ties go to the lowest address, so that the same requests get the same addresses every run.
    """

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self._by_size: list[Block] = sorted(blocks)
        self._check_disjoint()

    def __len__(self) -> int:
        return len(self._by_size)

    @property
    def total(self) -> int:
        """Free bytes."""
        return sum(block.nbytes for block in self._by_size)

    @property
    def largest(self) -> int:
        """Bytes of the largest free block; 0 when there is none."""
        return self._by_size[-1].nbytes if self._by_size else 0

    def blocks(self) -> tuple[Block, ...]:
        """All free blocks in the order of their addresses."""
        return tuple(sorted(self._by_size, key=lambda block: block.address))

    def give(self, block: Block) -> None:
        """Add a free block. The caller guarantees that nobody uses it any more."""
        insort(self._by_size, block)

    def take_exact(self, nbytes: int) -> Block | None:
        """Remove and return a free block that has exactly `nbytes`, or None."""
        index = bisect_left(self._by_size, (nbytes, 0, 0))
        if index == len(self._by_size) or self._by_size[index].nbytes != nbytes:
            return None
        return self._by_size.pop(index)

    def take(self, nbytes: int) -> Block | None:
        """Remove and return `nbytes`, or None; the rest of a larger block stays free."""
        index = bisect_left(self._by_size, (nbytes, 0, 0))
        if index == len(self._by_size):
            return None
        found = self._by_size.pop(index)
        if found.nbytes > nbytes:
            self.give(Block(found.nbytes - nbytes, found.address + nbytes, found.segment))
        return Block(nbytes, found.address, found.segment)

    def coalesce(self) -> int:
        """Merge neighbours of one segment; returns how many blocks disappeared."""
        merged: list[Block] = []
        for block in self.blocks():
            last = merged[-1] if merged else None
            if last is not None and last.segment == block.segment and last.end == block.address:
                merged[-1] = Block(last.nbytes + block.nbytes, last.address, last.segment)
            else:
                merged.append(block)
        gone = len(self._by_size) - len(merged)
        self._by_size = sorted(merged)
        return gone

    def remove_segment(self, segment: int, nbytes: int) -> bool:
        """Remove the block that is a whole segment of `nbytes`; False when part of it is in use."""
        whole = Block(nbytes, segment, segment)
        index = bisect_left(self._by_size, whole)
        if index == len(self._by_size) or self._by_size[index] != whole:
            return False
        self._by_size.pop(index)
        return True

    def restore(self, blocks: Iterable[Block]) -> None:
        """Replace the whole list, as after an aborted window."""
        self._by_size = sorted(blocks)
        self._check_disjoint()

    def _check_disjoint(self) -> None:
        blocks = self.blocks()
        for left, right in pairwise(blocks):
            if left.end > right.address:
                raise PoolError(f"free blocks overlap: {left} and {right}")
