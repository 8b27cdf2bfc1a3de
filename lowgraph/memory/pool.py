"""PersistentPool: named slices of device memory whose addresses never move while they are held.

Three things hold a block: a live slice; a *priming* pass, which keeps all that it used until the
capture that it primed begins; a graph, until it is closed. It is free when none does.
Sizes are exact, rounded up to 256 bytes. Nothing goes back to the driver but by `trim()`, `close()`
and for want of room.

Inside a window the driver is never asked for memory: a miss is refused before the call. A block
that is given back may be handed out at once. That is safe for work on one stream, where the new
user's kernels run behind the old one's; join other streams before giving back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from lowgraph import driver
from lowgraph.errors import CaptureAllocationError, PoolError
from lowgraph.integers import integer
from lowgraph.memory import open_window
from lowgraph.memory.borrowing import BorrowingPool
from lowgraph.memory.free_list import Block, aligned
from lowgraph.memory.ledger import Held, Ledger
from lowgraph.memory.open_window import requester
from lowgraph.memory.pool_lock import PoolLock
from lowgraph.memory.slices import Slice, checked_shape
from lowgraph.memory.source import BlockSource, Upstream
from lowgraph.memory.staging import Staging
from lowgraph.memory.stats import PoolStats
from lowgraph.memory.teardown import do_all

__all__ = ["PersistentPool"]


class PersistentPool(BorrowingPool):
    """See the module.

    limit: most bytes to hold from the driver; None leaves it to the device.
    poison: mark blocks on the device as they become free. The host device fills them with NaN and
        refuses access to them, in the order of the issued work; a GPU has no such marks.
    fill_stream: for debugging: fill blocks with 0xFF bytes (NaN) on this stream as they become
        free, on either device, so that a stale read shows as NaN. One launch a freed block.
    upstream: what provides the bytes, the driver unless a test says otherwise.
    """

    def __init__(
        self,
        device: driver.Device,
        limit: int | None = None,
        *,
        poison: bool = True,
        fill_stream: int | None = None,
        upstream: Upstream | None = None,
    ) -> None:
        self._lock = PoolLock()
        self.device = device
        self.poison = poison
        self.fill_stream = fill_stream
        self.staging = Staging()
        upstream = driver.memory if upstream is None else upstream
        limit = None if limit is None else integer(limit, "the pool's limit", 0)
        self._source = BlockSource(upstream, limit, device.resting_blocks if poison else 0)
        self._ledger = Ledger(self, self._freed)
        self._exclusives = {}
        self._executables = {}
        self._loans = []
        self._refused = 0

    # ---- slices ----

    def take(
        self,
        name: str,
        shape: tuple[int, ...] | int,
        dtype: Any = np.float32,
        *,
        lasting: bool = False,
    ) -> Slice:
        """Hand out a slice of `shape` (row-major) and `dtype`; its content is undefined.

        Inside a step's body it belongs to the running pass, unless it is `lasting`; elsewhere it
        lives until `give_back`.
        Raises CaptureAllocationError on a miss in a window, PoolError when limit or device is full,
        and on sizes that are negative or no integers, or elements that are Python objects.
        """
        sizes = checked_shape(name, shape)
        kind = np.dtype(dtype)
        if kind.hasobject:
            raise PoolError(f"slice {name!r}: {kind} elements are Python objects, not bytes")
        nbytes = aligned(math.prod(sizes) * kind.itemsize)
        wanted = f"slice {name!r} ({kind.name} {list(sizes)})"
        while True:
            with self._lock:
                self._refuse_closed("take")
                self._settle_loans()
                running = None if lasting else self._running()
                if lasting and self.in_window:
                    self._refuse_lasting(wanted)
                found = self._find(running, name, wanted, nbytes)
                if found is not None:
                    block, grown = found
                    held = self._ledger.add(block, name, sizes, kind)
                    if running is not None:
                        running.took(held.piece, nbytes, grown)
                        if running.holder is not None:
                            held.holders.add(running.holder)
                    self._annotate_live(held)
                    return held.piece
            self._grow_beside(wanted, nbytes)

    def give_back(self, piece: Slice) -> None:
        """Give a slice back: it ends; its memory stays with whoever else holds it.

        Raises PoolError for a part, a foreign slice, one given back before, or, inside a body, one
        that was taken outside of it.
        """
        if piece.root is not piece:
            raise PoolError(f"{piece.name!r} is a part of {piece.root.name!r}: give that back")
        with self._lock:
            if not piece.alive:
                raise PoolError(f"{piece!r} is given back a second time")
            held = self._ledger.entry(piece)
            self._refuse_borrowed(held)
            running = self._running()
            if running is not None and piece not in running:
                raise PoolError(
                    f"slice {piece.name!r} was taken outside this pass of {running.label!r}, "
                    "and a later pass would miss it: give it back outside the body"
                )
            self._exclusives.pop(held.block.address, None)
            if running is None:  # what a pass takes and gives in every step is told by its label
                piece._ended_at = requester()
            self._retire(held, running)

    def who_owns(self, address: int) -> Slice | None:
        """The slice that covers a device address, also one given back whose block is still held."""
        with self._lock:
            return self._ledger.covering(address)

    def hold(self, piece: Slice, owner: object) -> None:
        """Keep a slice's memory for `owner` as well, until `release(owner)`: a graph uses it.

        Giving the slice back meanwhile ends its name, not its memory.
        """
        with self._lock:
            self._ledger.entry(piece).holders.add(owner)

    def hold_addresses(self, addresses: Iterable[int], owner: object) -> tuple[int, ...]:
        """`hold` for whatever the device addresses lie in.

        Returns those that lie in no slice and in no staging slot of this pool.
        """
        with self._lock:
            outside = self._ledger.hold_addresses(addresses, owner)
            return tuple(address for address in outside if not self.staging.covers(address))

    # ---- the whole pool ----

    def holdings(self) -> tuple[tuple[Slice, str, str, int], ...]:
        """Slice, kind ("slice", "graph", "primed"), name of its owner, bytes: all that is held."""
        with self._lock:
            self._settle_loans()
            return tuple(self._ledger.holdings())

    def retained(self, owner: object) -> int:
        """Bytes that `owner` keeps beyond the slices that live anyway."""
        with self._lock:
            return self._ledger.bytes_of(owner)

    def trim(self) -> int:
        """Give wholly free allocations back to the driver; returns bytes. Not inside a pass."""
        with self._lock.with_capture_lock():
            if self._pass is not None:
                raise PoolError(f"trim inside a pass of {self._pass.label!r}: do it outside")
            self._settle_loans()
            return self._source.trim()

    def close(self) -> None:
        """End every slice and give all memory back to the driver. Idempotent.

        Raises PoolError while a graph holds memory or a pass is running, and the first DriverError
        of giving back, once all was tried.
        """
        with self._lock.with_capture_lock():
            if self._closed:
                return
            self._settle_loans()
            users = {
                held.piece.owner or label
                for held in self._held()
                for label in self._ledger.labels(held)
            }
            users |= {f"a pass of {self._pass.label!r}"} if self._pass is not None else set()
            if users:
                raise PoolError(f"the pool serves {', '.join(sorted(users))}: close that first")
            self._closed = True
            for held in self._held():
                self._ledger.take_out(held)
            do_all((self.staging.close, self._source.close))

    def stats(self) -> PoolStats:
        """Figures of this moment."""
        with self._lock:
            self._settle_loans()
            source, ledger = self._source, self._ledger
            inside, waiting = self._inside()
            sums = ledger.sums()
            return PoolStats(
                reserved=source.reserved,
                live=sums["live"],
                primed=sums["primed"] + waiting,
                retained=sums["retained"],
                free=source.free_bytes + inside,
                largest_free=source.free.largest,
                peak_live=ledger.peak,
                slices=sum(held.piece.alive for held in self._held()),
                takes=ledger.takes,
                gives=ledger.gives,
                driver_allocs=source.allocs,
                driver_frees=source.frees,
                refused=self._refused,
            )

    def free_blocks(self) -> tuple[Block, ...]:
        """The free list in address order: what an aborted window leaves as it was."""
        with self._lock:
            return self._source.free.blocks()

    # ---- inside ----

    def _refuse_lasting(self, wanted: str) -> None:
        """An abort puts the free list of the window's begin back, and this block would be on it."""
        reason = f"{wanted} was to last, but it was asked for in a capture window"
        refusal = CaptureAllocationError(reason, requester(), "take it before the step")
        raise open_window.refused(refusal)

    def _inside(self) -> tuple[int, int]:
        """Bytes that a running pass has free in it, and that it keeps for its window."""
        if self._pass is None:
            return 0, 0
        free, waiting = self._pass.free_blocks, self._pass.waiting
        return sum(block.nbytes for block in free), sum(block.nbytes for block in waiting)

    def _annotate_live(self, held: Held) -> None:
        # Slices of one window may share a block at every replay: none of them may be guarded by
        # the bounds of another.
        nbytes = held.block.nbytes if self.in_window else held.piece.nbytes
        if nbytes:
            self.device.annotate(held.block.address, nbytes, "live", held.piece.name)
