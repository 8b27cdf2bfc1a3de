"""Ledger: which block is held, by which slice and by whom. Bookkeeping only, no driver.

Holders are opaque objects: a `Primed`, a running window's token, a graph. A block is free when its
slice has ended and no holder is left; `on_free` is called then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from lowgraph import stages
from lowgraph.errors import PoolError
from lowgraph.memory.free_list import Block
from lowgraph.memory.passes import LedgerSums, Primed
from lowgraph.memory.slices import Slice

if TYPE_CHECKING:
    from lowgraph.memory.pool import PersistentPool

__all__ = ["Held", "Ledger"]


class Held:
    """A block that is not free: its latest slice, which may have ended, and who holds it.

    uses: the slices of one pass that were in it, one after the other, where that is known.
    """

    __slots__ = ("block", "holders", "piece", "uses")

    def __init__(self, block: Block, piece: Slice, holder: object | None) -> None:
        self.block = block
        self.piece = piece
        self.uses: tuple[Slice, ...] = ()
        self.holders: set[object] = set() if holder is None else {holder}

    @property
    def category(self) -> str:
        """What the block counts as: "live", "primed" or "retained" (by a graph)."""
        if self.piece.owner is not None:
            return "retained"
        if self.piece.alive:
            return "live"
        primed = any(isinstance(holder, Primed) for holder in self.holders)
        return "primed" if primed else "retained"


class Ledger:
    """Held blocks by address, and the counts that belong to them (bytes, aligned)."""

    def __init__(self, pool: PersistentPool, on_free: Callable[[Held], None]) -> None:
        self.held: dict[int, Held] = {}
        self.takes = 0
        self.gives = 0
        self.live = 0
        self.peak = 0
        self._pool = pool
        self._on_free = on_free
        self._generations: dict[int, int] = {}
        self._last_id = 0

    def add(self, block: Block, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Held:
        """A new slice over a block: the next id, and the next generation of its address."""
        generation = self._generations.get(block.address, 0) + 1
        self._generations[block.address] = generation
        self._last_id += 1
        self.takes += 1
        self.live += block.nbytes
        self.peak = max(self.peak, self.live)
        piece = Slice(block.address, name, shape, dtype, pool=self._pool, id=self._last_id,
                      generation=generation, stage=stages.current())  # fmt: skip
        held = self.held[block.address] = Held(block, piece, None)
        return held

    def entry(self, piece: Slice) -> Held:
        """The entry of a slice; PoolError when its block has gone to somebody else."""
        held = self.held.get(piece.root._address)
        if held is None or held.piece is not piece.root:
            raise PoolError(f"{piece!r} is not held by this pool")
        return held

    def covering(self, address: int) -> Slice | None:
        """The latest slice of the block that holds an address."""
        for held in self.held.values():
            if held.block.address <= address < held.block.end:
                return held.piece
        return None

    def hold_addresses(self, addresses: Iterable[int], owner: object) -> tuple[int, ...]:
        """Hold every block that one of the addresses lies in; returns those that lie in none."""
        starts = sorted(self.held)
        unowned = []
        for address in sorted(addresses):
            place = bisect_right(starts, address) - 1
            held = self.held[starts[place]] if place >= 0 else None
            if held is None or address >= held.block.end:
                unowned.append(address)
            else:
                held.holders.add(owner)
        return tuple(unowned)

    def end_slice(self, held: Held) -> None:
        """The slice may not be used any more; its block stays where it is."""
        if held.piece._alive:
            held.piece._alive = False
            self.live -= held.block.nbytes

    def take_out(self, held: Held) -> Block:
        """End the slice and forget the block: the caller has it now."""
        self.end_slice(held)
        del self.held[held.block.address]
        return held.block

    def settle(self, held: Held) -> None:
        """Free the block if neither a live slice nor a holder is left."""
        if held.holders:
            return
        if held.piece._owner is not None:  # its graph has gone, and the slice with it
            held.piece._owner = None
            self.end_slice(held)
        if not held.piece._alive:
            del self.held[held.block.address]
            self._on_free(held)

    def release(self, *holders: object) -> None:
        """`holders` hold nothing any more."""
        gone = set(holders)
        for held in [held for held in self.held.values() if not gone.isdisjoint(held.holders)]:
            held.holders -= gone
            self.settle(held)

    def hand_over(self, holder: object, owner: object, label: str) -> None:
        """What a window's token holds becomes the graph's."""
        for held in self.held.values():
            if holder in held.holders:
                held.holders = held.holders - {holder} | {owner}
                held.piece._owner = label

    def keep(self, block: Block, owner: object, label: str, uses: tuple[Slice, ...]) -> None:
        """A block without a live slice that a graph must keep: its kernels use the bytes."""
        rest = Slice(block.address, f"{label}: reused in the pass", (block.nbytes,),
                     np.dtype(np.uint8), pool=self._pool)  # fmt: skip
        rest._alive = False
        rest._owner = label
        held = self.held[block.address] = Held(block, rest, owner)
        held.uses = uses

    def keep_primed(self, block: Block, primed: Primed, uses: tuple[Slice, ...]) -> None:
        """A block without a live slice that waits for a window; uses: what was in it."""
        if len(uses) == 1 and uses[0]._address == block.address:
            last = uses[0]
        else:
            last = Slice(block.address, f"{primed.label}: reused in the pass", (block.nbytes,),
                         np.dtype(np.uint8), pool=self._pool)  # fmt: skip
            last._alive = False
        held = self.held[block.address] = Held(block, last, primed)
        held.uses = uses

    def undo(self, holder: object) -> None:
        """End and forget what a window's token holds."""
        for held in [held for held in self.held.values() if holder in held.holders]:
            self.take_out(held)

    @property
    def counts(self) -> LedgerSums:
        """Takes, gives and peak. Ids and generations are not among them: they only ever rise."""
        return LedgerSums(self.takes, self.gives, self.peak)

    @counts.setter
    def counts(self, before: LedgerSums) -> None:
        self.takes, self.gives, self.peak = before

    def labels(self, held: Held) -> list[str]:
        """Who holds a block beside its live slice, sorted; each name once."""
        return sorted({str(holder) for holder in held.holders if not isinstance(holder, Primed)})

    def holdings(self) -> Iterator[tuple[Slice, str, str, int]]:
        """Slice, kind ("slice", "graph", "primed"), name of who holds it, and aligned bytes."""
        for held in self.held.values():
            kind = held.category
            if kind == "live":
                yield held.piece, "slice", held.piece.name, held.block.nbytes
            elif kind == "primed":
                yield held.piece, "primed", _primed_label(held), held.block.nbytes
            else:
                name = held.piece.owner or ", ".join(self.labels(held))
                yield held.piece, "graph", name, held.block.nbytes

    def owners(self, held: Held) -> tuple[str, ...]:
        """`labels`, and for a primed block the step that it waits for."""
        return (_primed_label(held),) if held.category == "primed" else tuple(self.labels(held))

    def bytes_of(self, owner: object) -> int:
        """Bytes that a graph keeps beyond the slices that live anyway."""
        return sum(
            held.block.nbytes
            for held in self.held.values()
            if owner in held.holders and held.category == "retained"
        )

    def sums(self) -> dict[str, int]:
        """Bytes by category."""
        sums = {"live": 0, "primed": 0, "retained": 0}
        for held in self.held.values():
            sums[held.category] += held.block.nbytes
        return sums


def _primed_label(held: Held) -> str:
    return next(holder.label for holder in held.holders if isinstance(holder, Primed))
