"""Free blocks of device memory, as a pure data structure: no driver, no names, no policy.

A *segment* is one driver allocation, given by its base address; a block never spans two segments.
Blocks that are given back are **not** merged at once: a step gives back a set of blocks and takes
the same sizes again, which exact fits serve without splitting and merging each time. `coalesce()`
is for the moment before growing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from itertools import pairwise
from math import inf
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

    def take(self, nbytes: int, largest: float = inf) -> Block | None:
        """Remove and return `nbytes`, or None; the rest of a larger block stays free.

        largest: bytes of the largest block to split.
        """
        index = bisect_left(self._by_size, (nbytes, 0, 0))
        if index == len(self._by_size) or self._by_size[index].nbytes > largest:
            return None
        return self._split(index, self._by_size[index].address, nbytes)

    def take_at(self, address: int, nbytes: int) -> Block | None:
        """Remove and return `nbytes` from an address on; None where not all of it is free."""
        block = self._find_at(address, nbytes)
        if block is None and self.coalesce():
            block = self._find_at(address, nbytes)
        return block

    def _find_at(self, address: int, nbytes: int) -> Block | None:
        end = address + nbytes
        for index in range(bisect_left(self._by_size, (nbytes, 0, 0)), len(self._by_size)):
            block = self._by_size[index]
            if block.address <= address and end <= block.end:
                return self._split(index, address, nbytes)
        return None

    def _split(self, index: int, address: int, nbytes: int) -> Block:
        whole = self._by_size.pop(index)
        end = address + nbytes
        if whole.address < address:
            self.give(Block(address - whole.address, whole.address, whole.segment))
        if end < whole.end:
            self.give(Block(whole.end - end, end, whole.segment))
        return Block(nbytes, address, whole.segment)

    def remove(self, ranges: Iterable[tuple[int, int]]) -> list[Block]:
        """Remove what lies in half-open address ranges, which do not overlap; returns it."""
        wanted = sorted(ranges)
        kept, gone = [], []
        for block in self.blocks():
            at = block.address
            place = max(0, bisect_left(wanted, (at, 0)) - 1)
            while at < block.end and place < len(wanted):
                first, end = max(wanted[place][0], at), min(wanted[place][1], block.end)
                if first >= block.end:
                    break
                if first < end:
                    kept += [Block(first - at, at, block.segment)] if at < first else []
                    gone.append(Block(end - first, first, block.segment))
                    at = end
                place += 1
            kept += [Block(block.end - at, at, block.segment)] if at < block.end else []
        self._by_size = sorted(kept)
        return gone

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
