"""LegacyTrap: makes work on the legacy stream break a capture that it would slip past.

Beside a capture on a non-blocking stream such work runs at once, is in no replay, and nobody is
told. Once a blocking stream is in the capture too, the driver answers 906 to it and breaks the
capture, in every mode and from every thread (facts: "a blocking stream joins").
"""

from __future__ import annotations

import contextlib

from lowgraph import driver
from lowgraph.driver import event
from lowgraph.errors import DriverError

__all__ = ["LegacyTrap"]


class LegacyTrap:
    """A blocking stream, to be forked into one capture after another. Close it after the last."""

    def __init__(self) -> None:
        """Make the stream and its events. Raises DriverError."""
        self._stream = driver.stream.create(non_blocking=False)
        self._forked, self._joined = event.create(), event.create()

    def join(self, stream: int) -> None:
        """Fork it from a stream that captures. Raises DriverError."""
        event.record(self._forked, stream)
        driver.stream.wait_event(self._stream, self._forked)

    def part(self, stream: int) -> None:
        """Join it again, right before the end; what a broken capture answers is known."""
        with contextlib.suppress(DriverError):
            event.record(self._joined, self._stream)
            driver.stream.wait_event(stream, self._joined)

    def close(self) -> None:
        """Give stream and events back, outside of captures. Raises DriverError."""
        for each in (self._forked, self._joined):
            event.destroy(each)
        driver.stream.destroy(self._stream)
