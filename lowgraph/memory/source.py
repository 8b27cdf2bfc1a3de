"""BlockSource: where the pool's blocks come from, a free list over driver allocations."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Protocol

from lowgraph.errors import OutOfMemory, PoolError
from lowgraph.memory.free_list import Block, FreeList
from lowgraph.memory.stats import readable
from lowgraph.memory.teardown import do_all

__all__ = ["BlockSource", "Upstream"]


class Upstream(Protocol):
    """What provides the bytes: `lowgraph.driver.memory`, or a fake in a test."""

    def alloc(self, nbytes: int) -> int:
        """Device address of `nbytes` new bytes; raises OutOfMemory when there are none."""

    def free(self, address: int) -> None:
        """Give an allocation back."""


class BlockSource:
    """Blocks of exact sizes. `limit`: most bytes to hold from the upstream, or None.

    resting: the last so many blocks that were given are kept off the free list, unless there is no
        room without them, so that nobody has the memory when its old address is used by mistake.
    """

    def __init__(self, upstream: Upstream, limit: int | None, resting: int = 0) -> None:
        self.free = FreeList()
        self.limit = limit
        self._resting = resting
        self._rest: deque[Block] = deque()  # oldest first
        self.reserved = 0
        self.allocs = 0
        self.frees = 0
        self._upstream = upstream
        self._segments: dict[int, int] = {}

    @property
    def free_bytes(self) -> int:
        """Bytes that nobody holds."""
        return self.free.total + sum(block.nbytes for block in self._rest)

    @property
    def rests(self) -> bool:
        """Whether blocks rest at all."""
        return self._resting > 0

    @property
    def resting(self) -> tuple[Block, ...]:
        """Blocks that nobody holds and that are not on the free list yet."""
        return tuple(self._rest)

    def give(self, block: Block) -> None:
        """Take a block back that nobody holds any more."""
        self._rest.append(block)
        if len(self._rest) > self._resting:
            self.free.give(self._rest.popleft())

    def end_rest(self) -> None:
        """Put every block on the free list that rests."""
        while self._rest:
            self.free.give(self._rest.popleft())

    def find(self, nbytes: int) -> Block | None:
        """A free block of `nbytes`, without asking the upstream; None when there is none."""
        block = self.free.take(nbytes)
        if block is None and self.free.coalesce():
            block = self.free.take(nbytes)
        return block

    def grow(self, nbytes: int, wanted_for: str) -> Block:
        """A new allocation of exactly `nbytes`.

        Raises PoolError, saying what is held, when the limit or the device has no room left.
        """
        if not self.fits(nbytes) and (rested := self._make_room(nbytes)):
            return rested
        if self.limit is not None and not self.fits(nbytes):
            raise PoolError(
                f"{wanted_for} does not fit: the pool's limit is {readable(self.limit)}, "
                f"{self._holdings()}. Raise the limit, or give slices back"
            )
        try:
            return self._allocate(nbytes)
        except OutOfMemory as error:
            before = self.reserved
            if rested := self._make_room(nbytes):
                return rested
            if self.reserved == before:
                raise self._exhausted(wanted_for) from error
        try:
            return self._allocate(nbytes)
        except OutOfMemory as error:
            raise self._exhausted(wanted_for) from error

    def fits(self, nbytes: int) -> bool:
        """Whether the limit leaves room for an allocation."""
        return self.limit is None or self.reserved + nbytes <= self.limit

    def ask(self, nbytes: int) -> int:
        """Address of a new allocation, which nothing here knows before `add`; needs no lock."""
        return self._upstream.alloc(nbytes)

    def add(self, address: int, nbytes: int) -> Block:
        """Take over an allocation."""
        self._segments[address] = nbytes
        self.reserved += nbytes
        self.allocs += 1
        return Block(nbytes, address, address)

    def trim(self) -> int:
        """Give wholly free allocations back; returns their bytes."""
        self.end_rest()
        self.free.coalesce()
        gone = 0
        for segment, nbytes in list(self._segments.items()):
            if self.free.remove_segment(segment, nbytes):
                self._release(segment)
                gone += nbytes
        return gone

    def close(self) -> None:
        """Give every allocation back, free or not."""
        self._rest.clear()
        self.free.restore(())
        do_all(partial(self._release, segment) for segment in list(self._segments))

    def _make_room(self, nbytes: int) -> Block | None:
        """Give back what is wholly free; a block of `nbytes` if one that rested had the room."""
        self.end_rest()
        block = self.find(nbytes)
        if block is None:
            self.trim()
        return block

    def _allocate(self, nbytes: int) -> Block:
        return self.add(self.ask(nbytes), nbytes)

    def _release(self, segment: int) -> None:
        self.reserved -= self._segments.pop(segment)
        self.frees += 1
        self._upstream.free(segment)

    def _holdings(self) -> str:
        return (
            f"{readable(self.reserved)} are held, {readable(self.free_bytes)} of them free "
            f"(largest block {readable(self.free.largest)})"
        )

    def _exhausted(self, wanted_for: str) -> PoolError:
        return PoolError(
            f"{wanted_for} does not fit: the device has no memory left; {self._holdings()}. "
            "Give slices back, close graphs that retain memory, or take a smaller batch"
        )
