"""SeriesFeed: windows of a series that the host writes into pinned memory before the step runs.

A ring of slots lies in mapped pinned memory. The host writes the batch of step n into slot
n % SLOTS; a kernel copies slot counter % SLOTS to the device, by the same number as a counter on
the device has it. So a replay reads what the host wrote for it, and stays one launch: a copy node
would read one fixed place, and the host had to wait for each step before the next.

Over the bus a batch takes longer than many a kernel. So a training step begins with a batch that is
on the device, and while it runs that of the next one comes: the host is a batch ahead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lowgraph import ops
from lowgraph.driver import event
from lowgraph.errors import ConfigError
from lowgraph.memory import Slice, readable
from lowgraph.ops.philox import steps_starts
from lowgraph.ops.shapes import Pointer
from lowgraph.train.feed import Batch, Ground
from lowgraph.train.series import Rows

__all__ = ["SLOTS", "ClassFeed", "DrawnStarts", "SeriesFeed"]

SLOTS = 4
"""Steps that may be staged and not done: the host is ahead of the device by so many at most."""

_ALIGNMENT = 64  # elements: the pool's 256 bytes, for the labels as for a slice of their own

Array = npt.NDArray[np.float32]


class SeriesFeed:
    """See the module.

    Attributes
    ----------
    sources: empty; the data is the host's. waits: stagings that waited for the step SLOTS before.
    """

    def __init__(
        self,
        ground: Ground,
        name: str,
        rows: Rows,
        counter: Pointer,
        windows: int,
        starts: Callable[[int], Sequence[int] | npt.NDArray[Any]],
        *,
        early: bool = False,
    ) -> None:
        """Stage `windows` windows of `rows`; starts(n): the first row of each in step n.

        name: of the pinned memory. counter: int64 [1], the number of the running step. early: each
        batch is fetched by the step before; counter is that step's until it advances, behind
        `fetch`.
        """
        self.sources: tuple[Slice, ...] = ()
        self.waits = 0
        self._events: list[int] = []
        self._rows = rows
        self._starts = starts
        self._counter = counter
        self._early = early
        self._fetched: int | None = None  # the step whose batch `_next` holds
        self._pool = ground.pool
        self._stream = ground.stream
        self._copy = ops.StagedCopy(ground.library)
        self._shape = (windows, ground.context, rows.features.shape[1])
        self._along = np.arange(ground.context)
        count = windows * ground.context
        self._labels_at = _rounded(count * self._shape[2])
        self._elements = self._labels_at + _rounded(count)
        _check_memory(name, SLOTS * self._elements * 4)
        self._ring = ground.pool.staging.slot(name, (SLOTS, self._elements))
        self._ring.array[...] = 0.0
        self._next = ground.pool.take(f"{name}: next", self._elements if early else 0, lasting=True)
        self._slots = [self._views(slot) for slot in self._ring.array]
        ground.on_close(self.close)
        for _ in range(SLOTS):
            self._events.append(event.create())

    def begin(self, number: int) -> None:
        """Early, bring step `number`'s batch to the device, by a launch behind the steps issued.

        The counter is then to be one less.
        """
        if self._early:
            self._write(number)
            self._copy_slot(self._stream, self._next, ahead=1)
            self._mark_slot(number)
            self._fetched = number

    def stage(self, number: int) -> None:
        """Write step `number`'s windows once the step that read their slot is done.

        Early, those of the step behind it; and its own where no step has fetched them, as before
        the first one or behind a jump.
        """
        if not self._early:
            self._write(number)
            return
        if number != self._fetched:
            self.begin(number)
        self._fetched = None  # until the step is issued: one that fails may have fetched or not
        self._write(number + 1)

    def _write(self, number: int) -> None:
        slot = number % SLOTS
        if not event.is_done(self._events[slot]):
            self.waits += 1
            event.synchronize(self._events[slot])
        inputs, labels = self._slots[slot]
        rows = np.asarray(self._starts(number), np.intp)[:, None] + self._along
        # "clip" writes into `out` without a buffer between; no row is outside.
        np.take(self._rows.features, rows, axis=0, out=inputs, mode="clip")
        labels[...] = self._rows.labels[rows]

    def draw(self, stream: int) -> Batch:
        """Features, float32 [B, T, F], and labels, float32 [B, T]."""
        whole = self._pool.take("series batch", self._elements)
        if self._early:
            self._copy.forward(stream, whole, self._next, self._counter, self._elements, 1)
        else:
            self._copy_slot(stream, whole, ahead=0)
        inputs = whole.part(0, self._shape, "features")
        labels = whole.part(self._labels_at, self._shape[:2], "labels")
        return Batch(inputs, labels, (whole,))

    def fetch(self, stream: int) -> None:
        """The batch of the step to come, where that begins with one on the device."""
        if self._early:
            self._copy_slot(stream, self._next, ahead=2)

    def mark(self, number: int) -> None:
        """The slot is in use until the work so far is done."""
        if self._early:
            self._fetched = number = number + 1
        self._mark_slot(number)

    def _copy_slot(self, stream: int, out: Slice, ahead: int) -> None:
        ring, elements = self._ring.device_address, self._elements
        self._copy.forward(stream, out, ring, self._counter, elements, SLOTS, ahead=ahead)

    def _mark_slot(self, number: int) -> None:
        event.record(self._events[number % SLOTS], self._stream)

    def close(self) -> None:
        """Destroy the events; the pool frees the ring. Idempotent."""
        while self._events:
            event.destroy(self._events.pop())

    def _views(self, slot: Array) -> tuple[Array, Array]:
        """A slot's features [B, T, F] and labels [B, T]."""
        part = partial(_part, slot)
        return part(0, self._shape), part(self._labels_at, self._shape[:2])


class DrawnStarts:
    """Where the windows of a training step begin, drawn as those of a text are from (seed, step).

    For many steps at once: NumPy takes as long for one step's few numbers as for all of them, and
    longer than a small model's step.
    """

    _STEPS = 64

    def __init__(self, seed: int, windows: int, context: int, places: int) -> None:
        """places: rows of the series, and one more."""
        self._sizes = windows, context, places
        self._seed = seed
        self._drawn: npt.NDArray[Any] = np.empty((0, windows), np.intp)
        self._first = -1

    def __call__(self, step: int) -> npt.NDArray[Any]:
        """The first row of each window of the step."""
        first = step - step % self._STEPS
        if first != self._first:
            steps = range(first, first + self._STEPS)
            self._drawn = steps_starts(self._seed, steps, *self._sizes).astype(np.intp)
            self._first = first
        starts: npt.NDArray[Any] = self._drawn[step - first]
        return starts


class ClassFeed(SeriesFeed):
    """As SeriesFeed, with classes for labels: int32, in the place of the float32 ones."""

    def draw(self, stream: int) -> Batch:
        """Features, float32 [B, T, F], and classes, int32 [B, T]."""
        batch = super().draw(stream)
        return batch._replace(targets=batch.targets.viewed(np.int32))

    def _views(self, slot: Array) -> tuple[Array, Array]:
        """A slot's features and, to be written as whole numbers, its classes."""
        features, labels = super()._views(slot)
        return features, labels.view(np.int32)


def _check_memory(name: str, nbytes: int) -> None:
    """Refuse more pinned memory than the machine could give: the system would kill the process."""
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    if nbytes > half:
        raise ConfigError(
            f"{name}: {SLOTS} steps need {readable(nbytes)} of pinned memory, more than half of "
            f"this machine's {readable(2 * half)}; give a smaller --batch, --accumulate or --preset"
        )


def _part(slot: Array, begin: int, shape: tuple[int, ...]) -> Array:
    return slot[begin : begin + int(np.prod(shape))].reshape(shape)


def _rounded(elements: int) -> int:
    return -(-elements // _ALIGNMENT) * _ALIGNMENT
