"""Losses, gradient norms and times of steps, read at the log cadence without draining the stream.

The device writes each step's record into a ring in mapped pinned memory. At the end of a lap (the
steps between two progress lines) an event is recorded; a lap is read when the *next* one has been
issued, so that the device always has work while the host waits. A ring of two laps therefore never
loses an entry: at most two laps of steps are unread when the host waits.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from lowgraph.driver import event
from lowgraph.ops.loss_ring import LossRecord

__all__ = ["Lap", "MeanTime", "Ring", "StepLog"]


class Ring(Protocol):
    """Where the records lie."""

    def read(self, first: int, count: int) -> list[LossRecord]:
        """Records of the `count` steps after step number `first`."""


@dataclass(frozen=True)
class Lap:
    """The steps after `first` steps were done, and what each left behind.

    Attributes
    ----------
    losses: nats. norms: global norm of the gradients before clipping. masked: elements of the
        gradients that were not finite. ms: milliseconds a step took on the device, their mean.
    """

    first: int
    losses: list[float]
    norms: list[float]
    masked: list[int]
    ms: float

    @property
    def last(self) -> int:
        """Number of steps done at its end."""
        return self.first + len(self.losses)


class MeanTime:
    """Mean milliseconds of the steps of laps, each after `first` steps were done or later."""

    def __init__(self, first: int) -> None:
        self.first = first
        self._steps = 0
        self._sum = 0.0

    @property
    def ms(self) -> float | None:
        """The mean; None without a step."""
        return self._sum / self._steps if self._steps else None

    def add(self, lap: Lap) -> None:
        """Count a lap, unless it began before."""
        if lap.first >= self.first:
            self._steps += len(lap.losses)
            self._sum += lap.ms * len(lap.losses)


@dataclass(frozen=True)
class _Mark:
    """A place in the stream: `step` steps are done there."""

    step: int
    event: int


class StepLog:
    """Cuts a run into laps on one stream. `close()` it; the ring belongs to the caller."""

    def __init__(self, ring: Ring, stream: int) -> None:
        self._ring = ring
        self._stream = stream
        self._marks: deque[_Mark] = deque()
        self._spare: list[int] = []

    def begin(self, step: int) -> None:
        """Start the clock of a first lap here, with `step` steps done. Call `finish` before."""
        self._forget()
        self._mark(step)

    def lap(self, step: int) -> Lap | None:
        """End a lap here, with `step` steps done; returns the lap before it, once it is done.

        Without a step since the last mark there is no lap to end.
        """
        if step == self._marks[-1].step:
            return None
        self._mark(step)
        return self._read() if len(self._marks) > 2 else None

    def finish(self) -> list[Lap]:
        """Wait for the laps that have been ended and not returned yet."""
        laps = []
        while len(self._marks) > 1:
            laps.append(self._read())
        return laps

    def close(self) -> None:
        """Destroy the events. Idempotent."""
        self._forget()
        while self._spare:
            event.destroy(self._spare.pop())

    def _mark(self, step: int) -> None:
        mark = _Mark(step, self._spare.pop() if self._spare else event.create(timing=True))
        self._marks.append(mark)
        event.record(mark.event, self._stream)

    def _read(self) -> Lap:
        start = self._marks.popleft()
        end = self._marks[0]
        event.synchronize(end.event)
        steps = end.step - start.step
        ms = event.elapsed_ms(start.event, end.event) / steps
        self._spare.append(start.event)
        records = self._ring.read(start.step, steps)
        losses, norms = [r.loss for r in records], [r.norm for r in records]
        return Lap(start.step, losses, norms, [r.masked for r in records], ms)

    def _forget(self) -> None:
        while self._marks:
            self._spare.append(self._marks.popleft().event)
