"""The half of the pool that a step's passes use: eager, priming, and the window of a capture."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lowgraph import driver
from lowgraph.errors import OutOfMemory, PoolError
from lowgraph.memory.exclusive import Exclusive
from lowgraph.memory.free_list import Block
from lowgraph.memory.ledger import Held, Ledger
from lowgraph.memory.open_window import requester
from lowgraph.memory.passes import Pass, PassKind, Primed
from lowgraph.memory.pool_lock import PoolLock
from lowgraph.memory.source import BlockSource
from lowgraph.memory.stats import PassFigures

__all__ = ["PassPool"]

_NAN = 0xFF  # a byte of which every float dtype reads as NaN


class PassPool:
    """Passes over a block source and a ledger; PersistentPool adds what hands slices out.

    One pass runs at a time. What it takes belongs to it: an eager pass gives it back at its end, a
    priming pass keeps it for a window, a window gives it to a graph.
    """

    device: driver.Device
    poison: bool
    fill_stream: int | None
    _lock: PoolLock
    _exclusives: dict[int, Exclusive]
    _source: BlockSource
    _ledger: Ledger
    _pass: Pass | None = None
    _closed: bool = False

    @contextmanager
    def eager_pass(self, label: str = "pass") -> Iterator[Pass]:
        """A plain pass: what it took and did not give back is given back at its end."""
        running = self._enter(Pass(PassKind.EAGER, label))
        try:
            yield running
        finally:
            self._leave(running)

    @contextmanager
    def priming(self, label: str = "pass") -> Iterator[Primed]:
        """An unrecorded pass that keeps all memory that it used until its window begins.

        What is given back in it may be taken again in it; where each slice was is noted, for the
        window to have it there (`places`). Hand what it yields to `begin_window` or to `drop`. An
        exception drops it.
        """
        primed = Primed(label)
        # Where blocks rest, so that a late use is seen, a pass is not to reuse its own either.
        reuses = not self._source.rests
        running = self._enter(Pass(PassKind.PRIMING, label, primed, primed, reuses=reuses))
        try:
            yield primed
        except BaseException:
            self._leave(running)
            self.drop(primed)
            raise
        self._leave(running)
        primed.figures = running.figures

    def drop(self, *primed: Primed) -> None:
        """Free what priming passes kept; nothing to do once a window has begun with it."""
        self.release(*primed)

    def begin_window(self, label: str, primed: Primed | None = None) -> None:
        """What was primed becomes free to be taken again; from here on the driver is not asked.

        Call it right before the capture begins; `end_window` or `abort_window` must follow on the
        same thread. Other threads that want the pool wait until then.
        """
        self._lock.acquire(f"the window of {label!r}")
        try:
            self._refuse_closed("begin_window")
            if primed is not None:
                self.drop(primed)
            self._source.end_rest()  # a window reuses what its priming pass gave
            before = self._source.free.blocks()
            window = self._enter(Pass(PassKind.WINDOW, label, object(), primed, before))
            window.sums_before = self._ledger.counts
            self._lock.windowed = True
        except BaseException:
            self._lock.release()
            raise

    def end_window(self, owner: object) -> PassFigures:
        """Keep every block that the window took, also those given back in it, for `owner`.

        They stay until `release(owner)`. Returns the window's figures.
        """
        window = self._window("end_window")
        self._ledger.hand_over(window.holder, owner, window.label)
        for block in self._source.free.remove(window.touched):
            window.recycled.give(block)
        window.recycled.coalesce()
        blocks = window.recycled.blocks()
        for block, slices in zip(blocks, window.slices_in(blocks), strict=True):
            self._ledger.keep(block, owner, window.label, slices)
        self._close_window()
        return window.figures

    def abort_window(self) -> PassFigures:
        """Undo the window: its slices are dead, the lists and sums are those of its begin."""
        window = self._window("abort_window")
        self._ledger.undo(window.holder)
        if window.sums_before is not None:
            self._ledger.counts = window.sums_before
        self._source.free.restore(window.free_before)
        for block in window.free_before:
            self._mark_free(block, f"free, last in {window.label}")
        self._close_window()
        return window.figures

    @property
    def in_window(self) -> bool:
        """Whether this thread is between `begin_window` and its end."""
        running = self._running()
        return running is not None and running.kind is PassKind.WINDOW

    @property
    def in_pass(self) -> bool:
        """Whether this thread runs a pass of any kind."""
        return self._running() is not None

    @property
    def in_other_window(self) -> bool:
        """Whether another thread has a window over this pool open."""
        return self._lock.windowed and not self.in_window

    def release(self, *owners: object) -> None:
        """They hold nothing any more. The caller guarantees that their work is done.

        One look at all that the pool holds, however many they are.
        """
        with self._lock:
            self._ledger.release(*owners)
            for exclusive in self._exclusives.values():
                for owner in owners:
                    exclusive.left(owner)

    # ---- inside ----

    def _grow_beside(self, wanted: str, nbytes: int) -> None:
        """Put a block on the free list, beside another pool's window.

        No lock is held meanwhile: in global mode the driver call waits for the window's end.
        """
        with self._lock:
            fits = self._source.fits(nbytes)
        if fits:
            try:
                address = self._source.ask(nbytes)
            except OutOfMemory:
                pass
            else:
                with self._lock:
                    self._source.free.give(self._source.add(address, nbytes))
                return
        # What is free goes back to the driver first, behind the window.
        with self._lock.with_capture_lock():
            block = self._source.grow(nbytes, f"{wanted} asked for at {requester()}")
            self._source.free.give(block)

    def _running(self) -> Pass | None:
        """The pass of this thread: what another thread takes meanwhile is no part of it."""
        if self._pass is not None and self._pass.thread == threading.get_ident():
            return self._pass
        return None

    def _retire(self, held: Held, running: Pass | None) -> None:
        """The slice ends; its block is the pass's to reuse, or free if nobody holds it."""
        self._ledger.gives += 1
        own = running is not None and running.gave(held.block)
        if running is not None and running.kind is PassKind.WINDOW:
            (running.recycled if own else self._source.free).give(self._ledger.take_out(held))
        elif running is not None and held.holders == {running.primed}:
            self._mark_free(held.block, held.piece.name)
            running.recycled.give(self._ledger.take_out(held))
        else:
            self._ledger.end_slice(held)
            self._ledger.settle(held)

    def _freed(self, held: Held) -> None:
        running = self._pass
        if running is not None and running.kind is PassKind.WINDOW:
            # Not the window's: an abort puts the free list of its begin back and would lose it.
            running.late.append(held.block)
            return
        self._mark_free(held.block, held.piece.name)
        self._source.give(held.block)

    def _mark_free(self, block: Block, name: str) -> None:
        if self.fill_stream is not None:
            # The padding behind a slice is filled too: its mark would call that a stray write.
            self.device.annotate(block.address, block.nbytes, "gone", name)
            driver.memory.memset_d8_async(block.address, _NAN, block.nbytes, self.fill_stream)
        if self.poison:
            self.device.annotate(block.address, block.nbytes, "free", name)

    def _enter(self, running: Pass) -> Pass:
        with self._lock:
            self._refuse_closed("a pass")
            if self._pass is not None:
                raise PoolError(
                    f"{running.label!r}: a pass of {self._pass.label!r} is running on this pool; "
                    "a step's body may not run another step"
                )
            self._pass = running
            return running

    def _leave(self, running: Pass) -> None:
        with self._lock:
            running.ends()
            for piece in running.outstanding():
                self._retire(self._ledger.entry(piece), running)
            if running.primed is not None:
                running.recycled.coalesce()
                blocks = running.waiting
                for block, slices in zip(blocks, running.slices_in(blocks), strict=True):
                    self._ledger.keep_primed(block, running.primed, slices)
            self._pass = None

    def _window(self, call: str) -> Pass:
        running = self._running()
        if running is None or running.kind is not PassKind.WINDOW:
            raise PoolError(f"{call} without begin_window on this thread")
        return running

    def _close_window(self) -> None:
        window, self._pass = self._pass, None
        for block in window.late if window is not None else ():
            self._mark_free(block, "freed in a window")
            self._source.give(block)
        self._lock.windowed = False
        self._lock.release()

    def _refuse_closed(self, call: str) -> None:
        if self._closed:
            raise PoolError(f"{call}: the pool is closed")
