"""The part of the pool that arrays of other libraries use: they hold a slice's memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from lowgraph.memory.pass_pool import PassPool
from lowgraph.memory.passes import Primed
from lowgraph.memory.slices import Slice

__all__ = ["LendingPool", "Loan"]


class Loan:
    """What the ledger knows an array by. name: of the slice."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        """What holds it, for messages."""
        return f"an array over {self.name!r}"


class LendingPool(PassPool):
    """See the module. An array ends in whatever thread drops it: the pool sees to it later."""

    _ended: deque[Loan]

    def lend(self, piece: Slice) -> Callable[[], None]:
        """Keep a slice's memory for an array; returns what ends that, for any thread to call.

        Raises PoolError for a slice that is not held.
        """
        loan = Loan(piece.name)
        with self._lock:
            self._ledger.entry(piece).holders.add(loan)
        return partial(self._ended.append, loan)

    def begin_window(self, label: str, primed: Primed | None = None) -> None:
        """See PassPool: what arrays of the priming pass held is free for the window."""
        with self._lock:
            self._settle_loans()
        super().begin_window(label, primed)

    def _settle_loans(self) -> None:
        """Let go of what arrays held that are gone. The caller holds the lock."""
        while self._ended:
            self._ledger.release(self._ended.popleft())
