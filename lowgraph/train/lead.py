"""How far the host runs ahead of the device: far enough that it never idles, and no further.

A Ctrl-C stops at the steps that have been issued, and a wait for them cannot be interrupted from
Python. A lap may be hundreds of steps; on the host device, or of a large model, that is
minutes. So the host also waits for a mark between: the one before the latest, so that the device
has work meanwhile. The distance of marks follows the time that they take.
"""

from __future__ import annotations

import time
from collections import deque

from lowgraph.driver import event

__all__ = ["Lead"]

_SHORT, _LONG = 0.05, 0.2  # seconds between two marks at which their distance is changed
_MOST = 1024  # steps


class Lead:
    """Keeps the host at most two distances of marks ahead on one stream. `close()` it.

    every: steps from one mark to the next.
    """

    def __init__(self, stream: int) -> None:
        self.every = 1
        self._stream = stream
        self._steps = 0
        self._marks: deque[int] = deque()
        self._spare: list[int] = []
        self._since = time.perf_counter()

    def begin(self) -> None:
        """Steps begin here, behind other work, whose time is not theirs."""
        self._since = time.perf_counter()

    def issued(self) -> None:
        """A step was issued: mark it or not, and wait where two marks are not reached."""
        self._steps += 1
        if self._steps < self.every:
            return
        self._steps = 0
        mark = self._spare.pop() if self._spare else event.create()
        self._marks.append(mark)
        event.record(mark, self._stream)
        if len(self._marks) > 1:
            self._wait()

    def close(self) -> None:
        """Destroy the events. Idempotent."""
        for mark in (*self._marks, *self._spare):
            event.destroy(mark)
        self._marks.clear()
        self._spare.clear()

    def _wait(self) -> None:
        mark = self._marks.popleft()
        self._spare.append(mark)
        event.synchronize(mark)
        now = time.perf_counter()
        took, self._since = now - self._since, now
        if took < _SHORT:
            self.every = min(2 * self.every, _MOST)
        elif took > _LONG:
            self.every = max(self.every // 2, 1)
