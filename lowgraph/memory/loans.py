"""The part of the pool that arrays of other libraries use: they hold a slice's memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from lowgraph.errors import OutOfMemory, PoolError
from lowgraph.memory.ledger import Held
from lowgraph.memory.passes import Primed
from lowgraph.memory.places import union
from lowgraph.memory.searching import SearchingPool
from lowgraph.memory.slices import Slice

__all__ = ["LendingPool", "Lent", "Loan"]

_FEW = 64


class Lent(Protocol):
    """What of an array is looked at, until it is over."""

    def is_over(self) -> bool:
        """Whether nobody can reach the memory by it any more."""


class Loan:
    """What the ledger knows an array by. name: of the slice."""

    def __init__(self, name: str, lent: Lent) -> None:
        self.name = name
        self.lent = lent

    def __str__(self) -> str:
        """What holds it, for messages."""
        return f"an array over {self.name!r}"


class LendingPool(SearchingPool):
    """See the module. An array ends unheard, in whatever thread drops it: the pool looks later."""

    _loans: list[Loan]
    _settle_at = _FEW

    def lend(self, piece: Slice, lent: Lent) -> None:
        """Keep a slice's memory until the array is over.

        Raises PoolError for a slice that is not held.
        """
        loan = Loan(piece.name, lent)
        with self._lock:
            if len(self._loans) >= self._settle_at:  # a source may make an array at each replay
                self._settle_loans()
            held = self._ledger.entry(piece)
            self._loans.append(loan)  # first: a Ctrl-C between the two leaves nothing held
            held.holders.add(loan)

    def is_lent(self, piece: Slice) -> bool:
        """Whether an array holds the memory of a slice or part, also of one given back."""
        with self._lock:
            self._settle_loans()
            held = self._ledger.held.get(piece.root._address)
            if held is None or held.piece is not piece.root:
                return False
            return any(isinstance(holder, Loan) for holder in held.holders)

    @contextmanager
    def priming(self, label: str = "pass") -> Iterator[Primed]:
        """See PassPool. What arrays hold beyond the pass is taken once more, for the window."""
        with super().priming(label) as primed:
            yield primed
        with self._lock:
            self._settle_loans()
            lent = [held.block for held in self._held() if _is_lent_of(held, primed)]
            with contextlib.suppress(OutOfMemory, PoolError):  # the window will say what it lacks
                for first, end in union(place.range for place in primed.places):
                    if any(first <= block.address < end for block in lent):
                        self._take_twin(first, end, primed)

    def _take_twin(self, first: int, end: int, primed: Primed) -> None:
        """Other memory for all places that share an address with one another: see `places`."""
        nbytes = end - first
        name = f"in place of what arrays keep of {primed.label!r}"
        block = self._source.find(nbytes) or self._source.grow(nbytes, name)
        self._ledger.keep_primed(block, primed, ())
        primed.move(first, end, block.address)

    def _held(self) -> list[Held]:
        return list(self._ledger.held.values())

    def begin_window(self, label: str, primed: Primed | None = None) -> None:
        """See PassPool: what arrays of the priming pass held is free for the window."""
        with self._lock:
            self._settle_loans()
        super().begin_window(label, primed)

    def _settle_loans(self) -> None:
        """Let go of what arrays held that are gone. The caller holds the lock."""
        over = [loan for loan in self._loans if loan.lent.is_over()]
        if over:
            self._ledger.release(*over)
            self._loans = [loan for loan in self._loans if not loan.lent.is_over()]
        self._settle_at = 2 * len(self._loans) + _FEW


def _is_lent_of(held: Held, primed: Primed) -> bool:
    return primed in held.holders and any(isinstance(holder, Loan) for holder in held.holders)
