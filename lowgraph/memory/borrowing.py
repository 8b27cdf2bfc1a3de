"""The part of the pool that workspaces use: slices that graphs borrow and that must not move."""

from __future__ import annotations

from lowgraph.errors import WorkspaceInUse
from lowgraph.memory.exclusive import Exclusive
from lowgraph.memory.ledger import Held
from lowgraph.memory.open_window import LOCK
from lowgraph.memory.pass_pool import PassPool
from lowgraph.memory.slices import Slice

__all__ = ["BorrowingPool"]


class BorrowingPool(PassPool):
    """See the module. Who borrows is who holds the block in the ledger: there is no second list."""

    def make_exclusive(self, piece: Slice) -> Exclusive:
        """From here on graphs *borrow* this slice: it cannot be given back while one holds it.

        What is returned keeps two streams from using it at once.
        """
        with LOCK:
            address = self._ledger.entry(piece).block.address
            return self._exclusives.setdefault(address, Exclusive(piece))

    def is_exclusive(self, piece: Slice) -> bool:
        """Whether `make_exclusive` was called for a slice that is still held."""
        found = self._exclusives.get(piece.root._address)
        return found is not None and found.piece is piece.root

    def holders(self, piece: Slice) -> list[str]:
        """Labels of the graphs that hold a slice's memory, sorted."""
        with LOCK:
            return self._ledger.labels(self._ledger.entry(piece))

    def borrowed(self, owner: object) -> tuple[Exclusive, ...]:
        """The exclusive slices that `owner` holds."""
        with LOCK:
            entries = [(one, self._ledger.held.get(at)) for at, one in self._exclusives.items()]
            return tuple(one for one, held in entries if held and owner in held.holders)

    def refuse_borrowed(self, piece: Slice) -> None:
        """Raise WorkspaceInUse, naming the graphs, if graphs borrow this slice."""
        with LOCK:
            self._refuse_borrowed(self._ledger.entry(piece))

    def _refuse_borrowed(self, held: Held) -> None:
        if not self.is_exclusive(held.piece):
            return
        graphs = self._ledger.labels(held)
        if graphs:
            piece = held.piece
            reason = f"{piece.name!r} is borrowed by {', '.join(graphs)}: close those graphs first"
            raise WorkspaceInUse(piece.id, piece.nbytes, graphs, reason)
