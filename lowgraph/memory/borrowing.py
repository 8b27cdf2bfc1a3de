"""The part of the pool that workspaces use: slices that graphs borrow and that must not move."""

from __future__ import annotations

from typing import NamedTuple

from lowgraph.errors import WorkspaceInUse
from lowgraph.memory.exclusive import Exclusive
from lowgraph.memory.free_list import Block
from lowgraph.memory.ledger import Held
from lowgraph.memory.loans import LendingPool
from lowgraph.memory.slices import Slice

__all__ = ["BorrowingPool", "Placed"]

_STATES = {"live": "live", "primed": "primed", "retained": "graph"}  # of a block's category


class Placed(NamedTuple):
    """A block and who has it: state as in `lowgraph.memory.STATES`.

    slices: the latest one, or those that a graph's pass had there; none in a free block.
    """

    block: Block
    state: str
    slices: tuple[Slice, ...] = ()
    owners: tuple[str, ...] = ()


class BorrowingPool(LendingPool):
    """See the module. Who borrows is who holds the block in the ledger: there is no second list.

    It also notes what the executables of its graphs took of the device, beside the pool.
    """

    _executables: dict[object, tuple[str, int]]

    def make_exclusive(self, piece: Slice) -> Exclusive:
        """From here on graphs *borrow* this slice: it cannot be given back while one holds it.

        What is returned keeps two streams from using it at once.
        """
        with self._lock:
            address = self._ledger.entry(piece).block.address
            return self._exclusives.setdefault(address, Exclusive(piece))

    def is_exclusive(self, piece: Slice) -> bool:
        """Whether `make_exclusive` was called for a slice that is still held."""
        found = self._exclusives.get(piece.root._address)
        return found is not None and found.piece is piece.root

    def holders(self, piece: Slice) -> list[str]:
        """Labels of the graphs that hold a slice's memory, sorted."""
        with self._lock:
            return self._ledger.labels(self._ledger.entry(piece))

    def borrowed(self, owner: object) -> tuple[Exclusive, ...]:
        """The exclusive slices that `owner` holds."""
        with self._lock:
            entries = [(one, self._ledger.held.get(at)) for at, one in self._exclusives.items()]
            return tuple(one for one, held in entries if held and owner in held.holders)

    def layout(self) -> list[Placed]:
        """Every block of every driver allocation, in the order of addresses."""
        with self._lock:
            self._settle_loans()
            inside = self._pass.free_blocks if self._pass is not None else ()
            free = (*self._source.free.blocks(), *inside)
            places = [Placed(block, "free") for block in free]
            places += [Placed(block, "resting") for block in self._source.resting]
            if self._pass is not None:
                waiting, label = self._pass.waiting, self._pass.label
                for block, slices in zip(waiting, self._pass.slices_in(waiting), strict=True):
                    places.append(Placed(block, "primed", slices, (label,)))
            for held in self._ledger.held.values():
                workspace = held.piece.alive and self.is_exclusive(held.piece)
                state = "workspace" if workspace else _STATES[held.category]
                slices = held.uses or (held.piece,)
                places.append(Placed(held.block, state, slices, self._ledger.owners(held)))
        return sorted(places, key=lambda place: place.block.address)

    def note_executable(self, executable: object, label: str, nbytes: int) -> None:
        """Bytes that instantiating a graph took of the device, until `forget_executable`."""
        with self._lock:
            self._executables[executable] = label, nbytes

    def forget_executable(self, executable: object) -> None:
        """It was destroyed. Idempotent."""
        with self._lock:
            self._executables.pop(executable, None)

    def executables(self) -> list[tuple[str, int]]:
        """Label and bytes of each executable, the largest first."""
        with self._lock:
            return sorted(self._executables.values(), key=lambda one: (-one[1], one[0]))

    def held_by(self, owner: object) -> list[tuple[Slice, int, int]]:
        """Of each block that `owner` holds its latest slice, its address and its bytes."""
        with self._lock:
            held = [held for held in self._ledger.held.values() if owner in held.holders]
            return [(each.piece, each.block.address, each.block.nbytes) for each in held]

    def refuse_borrowed(self, piece: Slice) -> None:
        """Raise WorkspaceInUse, naming the graphs, if graphs borrow this slice."""
        with self._lock:
            self._refuse_borrowed(self._ledger.entry(piece))

    def _refuse_borrowed(self, held: Held) -> None:
        if not self.is_exclusive(held.piece):
            return
        graphs = self._ledger.labels(held)
        if graphs:
            piece = held.piece
            reason = f"{piece.name!r} is borrowed by {', '.join(graphs)}: close those graphs first"
            raise WorkspaceInUse(piece.id, piece.nbytes, graphs, reason)
