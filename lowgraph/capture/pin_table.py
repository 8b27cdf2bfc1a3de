"""The table of addresses of a step's Table pins, and what a moved input's owner waits for."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from lowgraph import driver
from lowgraph.capture.pins import Table
from lowgraph.memory import PersistentPool, Slice, upload
from lowgraph.memory.teardown import do_all

__all__ = ["AddressTable", "Keeper"]


class AddressTable:
    """Addresses in device memory, one slot a pin; written in stream order, and only when one moved.

    The values go through the pool's pinned ring, which is not rewritten before its last copy is
    done; the copy is behind the replays in flight, which so read the old addresses to their end.
    """

    def __init__(self, pool: PersistentPool, label: str, pins: Sequence[Table]) -> None:
        self.writes = 0
        self._pins = tuple(pins)
        self._held: tuple[int, ...] = ()
        self._pool = pool
        self._table: Slice | None = None
        if pins:
            self._table = pool.take(f"{label}: pin table", len(pins), np.uint64)
            for number, pin in enumerate(pins):
                pin.slot = self._table.part(number, (1,), f"{pin.name}: address")

    def write(self, stream: int) -> None:
        """Enqueue the present addresses if they are not what the table holds."""
        wanted = tuple(pin.now.address for pin in self._pins if pin.now is not None)
        if self._table is None or wanted == self._held:
            return
        upload(self._table, np.array(wanted, np.uint64), stream)
        self._held = wanted
        self.writes += 1

    def close(self) -> None:
        """Give the table back."""
        table, self._table = self._table, None
        if table is not None:
            self._pool.give_back(table)


class Keeper:
    """Keeps owners of foreign memory alive until the work that may read it is done."""

    def __init__(self, stream: int) -> None:
        self._stream = stream
        self._waiting: deque[tuple[int, Any]] = deque()
        self._spare: list[int] = []

    def let_go(self, owner: Any) -> None:
        """Drop `owner` once the stream's work so far is done. Nothing waits here."""
        self._sweep()
        event = self._spare.pop() if self._spare else driver.event.create()
        driver.event.record(event, self._stream)
        self._waiting.append((event, owner))

    def close(self) -> None:
        """Wait for the work that reads them, then drop all.

        Everything is tried; the first DriverError is raised.
        """
        waiting = [event for event, _ in self._waiting]
        events = [*waiting, *self._spare]
        waits = [partial(driver.event.synchronize, event) for event in waiting]
        try:
            do_all((*waits, *(partial(driver.event.destroy, event) for event in events)))
        finally:
            self._waiting.clear()
            self._spare.clear()

    def __len__(self) -> int:
        return len(self._waiting)

    def _sweep(self) -> None:
        while self._waiting and driver.event.is_done(self._waiting[0][0]):
            self._spare.append(self._waiting.popleft()[0])
