"""What device addresses lie in, looked up once for a whole graph: slices, staging, foreign.

Slices of one pass may share a block, one after another. The pool knows the latest; which one a
launch was given is in the journal, which noted each slice as it was taken.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from lowgraph.capture import ForeignMemory, Journal
from lowgraph.capture.records import Sized
from lowgraph.debug.form import Memory
from lowgraph.memory import PersistentPool, Slice

__all__ = ["KnownMemory", "foreign_memory", "lives"]


class KnownMemory:
    """The memory of one moment. used: what `find` was asked for, in that order; `pieces`: theirs.

    pool: None where nothing is known of one. foreign: buffers of others; where one lies in the
    pool, the pool's slice is the finer answer.
    """

    def __init__(
        self,
        pool: PersistentPool | None,
        foreign: Sequence[ForeignMemory] = (),
        journal: Journal | None = None,
    ) -> None:
        self.used: list[Memory] = []
        self.pieces: list[Slice | ForeignMemory | None] = []
        self._places: dict[tuple[Memory, int], int] = {}
        own = [] if pool is None else [*_staging(pool), *_slices(pool)]
        # What is asked first is the pool's: where a buffer of others lies in it, that is finer.
        self._ranges = _Ranges(own), _Ranges([(foreign_memory(one), one) for one in foreign])
        self._taken = _Taken([] if journal is None else journal.sizes)

    def find(self, address: int, launches: int = 0) -> int | None:
        """Place in `used` of the memory that covers an address; None where none does.

        launches: of the journal's, before the node that was given the address.
        """
        found = next(filter(None, (ranges.at(address) for ranges in self._ranges)), None)
        if found is None:
            return None
        memory, piece = found
        taken = self._taken.at(address, launches) if memory.role == "graph" else None
        if taken is not None:
            start, end = _range(taken)
            memory = replace(memory, name=taken.name, address=start, nbytes=end - start)
        key = memory, id(piece)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self.used)
            self.used.append(memory)
            self.pieces.append(piece)
        return place


_Found = tuple[Memory, Slice | ForeignMemory | None]


class _Ranges:
    """Memory by address. Buffers of others may lie in each other."""

    def __init__(self, found: Sequence[_Found]) -> None:
        self._all = sorted(found, key=lambda one: one[0].address)
        self._starts = [memory.address for memory, _ in self._all]
        ends = (memory.address + memory.nbytes for memory, _ in self._all)
        self._reach = list(accumulate(ends, max))  # what lies before it ends there at last

    def at(self, address: int) -> _Found | None:
        """What covers an address; of several what begins last."""
        place = bisect_right(self._starts, address) - 1
        while place >= 0 and address < self._reach[place]:
            memory = self._all[place][0]
            if address < memory.address + memory.nbytes:
                return self._all[place]
            place -= 1
        return None


class _Taken:
    """Which slice of a pass an address was in when a launch was made.

    Between two neighbouring ends of slices the same slices cover every address: they are looked up
    there, for a pass of thousands takes as many.
    """

    def __init__(self, sizes: Sequence[Sized]) -> None:
        taken = [size for size in sizes if size.kind == "slice"]
        ends = {end for size in taken for end in _range(size)}
        self._bounds = sorted(ends)
        self._covering: list[list[Sized]] = [[] for _ in self._bounds]
        for size in taken:
            first, last = (bisect_left(self._bounds, end) for end in _range(size))
            for place in range(first, last):
                self._covering[place].append(size)  # in the order of taking

    def at(self, address: int, launches: int) -> Sized | None:
        """The latest that covers the address and was taken before launch number `launches`."""
        place = bisect_right(self._bounds, address) - 1
        if place < 0:
            return None
        known = self._covering[place]
        before = bisect_right(known, launches, key=lambda size: size.after)
        return known[before - 1] if before else None


def _range(size: Sized) -> tuple[int, int]:
    return size.address, size.address + int(str(size.sizes[0]))


def foreign_memory(one: ForeignMemory) -> Memory:
    """Memory of somebody else's, with its end if that is known."""
    alive = one.life is None or not one.life.end
    where = "" if one.life is None else one.life.freed_at
    told = one.name, one.address, one.nbytes, 0, one.generation, "foreign"
    return Memory(*told, alive=alive, where=where)


def _staging(pool: PersistentPool) -> list[_Found]:
    return [
        (Memory(name, address, nbytes, role="staging"), None)
        for name, address, nbytes in pool.staging.named()
    ]


def _slices(pool: PersistentPool) -> list[_Found]:
    found: list[_Found] = []
    for piece, kind, owner, nbytes in pool.holdings():
        role = "workspace" if kind == "slice" and pool.is_exclusive(piece) else kind
        keeper = "" if role in ("slice", "workspace") else owner
        memory = Memory(piece.name, piece._address, nbytes, piece.id, piece.generation, role,
                        keeper, lives(piece), piece.ended_at)  # fmt: skip
        found.append((memory, piece))
    return found


def lives(piece: Slice) -> bool:
    """Whether its name, the graph in whose body it was taken, or an array still stands for it."""
    if piece.alive or piece.owner is not None:
        return True
    return piece.pool is not None and piece.pool.is_lent(piece)
