"""What device addresses lie in, looked up once for a whole graph: slices, staging, foreign.

Slices of one pass may share a block, one after another. The pool knows the latest; which one a
launch was given is in the journal, which noted each slice as it was taken.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from lowgraph.capture import ForeignMemory, Journal
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
        self._places: dict[tuple[int, str, int], int] = {}
        found: dict[int, _Found] = {one.address: (foreign_memory(one), one) for one in foreign}
        if pool is not None:
            found |= {memory.address: (memory, None) for memory in _staging(pool)}
            found |= {memory.address: (memory, piece) for memory, piece in _slices(pool)}
        self._all = [found[address] for address in sorted(found)]
        self._starts = sorted(found)
        taken = [] if journal is None else journal.sizes
        self._taken = [size for size in taken if size.kind == "slice"]

    def find(self, address: int, launches: int = 0) -> int | None:
        """Place in `used` of the memory that covers an address; None where none does.

        launches: of the journal's, before the node that was given the address.
        """
        at = bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._starts[at] + self._all[at][0].nbytes:
            return None
        memory, piece = self._all[at]
        if memory.role == "graph":
            memory = self._as_taken(memory, address, launches)
        key = at, memory.name, memory.address
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self.used)
            self.used.append(memory)
            self.pieces.append(piece)
        return place

    def _as_taken(self, memory: Memory, address: int, launches: int) -> Memory:
        """The block under the name that it had when that launch was made."""
        for taken in reversed(self._taken):
            nbytes = int(str(taken.sizes[0]))
            if taken.after <= launches and taken.address <= address < taken.address + nbytes:
                return replace(memory, name=taken.name, address=taken.address, nbytes=nbytes)
        return memory


_Found = tuple[Memory, Slice | ForeignMemory | None]


def foreign_memory(one: ForeignMemory) -> Memory:
    """Memory of somebody else's, with its end if that is known."""
    alive = one.life is None or not one.life.end
    where = "" if one.life is None else one.life.freed_at
    told = one.name, one.address, one.nbytes, 0, one.generation, "foreign"
    return Memory(*told, alive=alive, where=where)


def _staging(pool: PersistentPool) -> list[Memory]:
    return [
        Memory(name, address, nbytes, role="staging")
        for name, address, nbytes in pool.staging.named()
    ]


def _slices(pool: PersistentPool) -> list[tuple[Memory, Slice]]:
    found = []
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
