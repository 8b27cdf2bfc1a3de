"""The part of the pool that workspaces use: slices that graphs borrow and that must not move."""

from __future__ import annotations

from lowgraph.errors import WorkspaceInUse
from lowgraph.memory.exclusive import Exclusive
from lowgraph.memory.ledger import Held
from lowgraph.memory.loans import LendingPool
from lowgraph.memory.slices import Slice

__all__ = ["BorrowingPool"]


class BorrowingPool(LendingPool):
    """See the module. Who borrows is who holds the block in the ledger: there is no second list."""

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
