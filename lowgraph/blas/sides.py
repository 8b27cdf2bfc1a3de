"""Streams beside the one that a step runs on, for work that nothing there waits for until a join.

In a capture the fork and the join are edges of the graph, and what lies between them is a branch of
it; outside of one they order the streams just the same. So both ways run the same work, and each
result has one writer: the bits do not depend on how the branches meet.
"""

from __future__ import annotations

from typing import NamedTuple

from lowgraph import driver
from lowgraph.driver import event
from lowgraph.integers import integer

__all__ = ["SideStreams"]


class _Side(NamedTuple):
    stream: int
    begun: int  # an event recorded on the main stream
    done: int  # events recorded on this one
    marked: int


class SideStreams:
    """Side streams by index, made as they are asked for and kept until `close`."""

    def __init__(self, stream: int) -> None:
        """stream: the one that they are beside."""
        self._stream = stream
        self._sides: list[_Side] = []

    def make(self, count: int, *, yields: bool = False) -> None:
        """Have at least `count` of them. Outside of windows.

        yields: those that are made now are of the least priority, and leave the next free place on
        the device to the stream beside them, if that is of a greater one. Without, they have its
        priority: right where they have as much to do, for who yields ends later. Raises
        ConfigError for a number below 0.
        """
        count = integer(count, "the number of side streams", 0)
        if len(self._sides) >= count:
            return
        priority = 0 if yields else driver.stream.priority_of(self._stream)
        while len(self._sides) < count:
            events = (event.create() for _ in range(3))
            self._sides.append(_Side(driver.stream.create(priority=priority), *events))

    def add(self) -> int:
        """Make one more, of the priority of the stream beside it; returns its index."""
        self.make(len(self._sides) + 1)
        return len(self._sides) - 1

    def fork(self, stream: int, index: int) -> int:
        """The side stream, whose next work comes behind all that `stream` has so far."""
        side = self._sides[index]
        event.record(side.begun, stream)
        driver.stream.wait_event(side.stream, side.begun)
        return side.stream

    def mark(self, index: int) -> None:
        """Note what the side stream has so far, for `wait_for_mark`. After its fork."""
        side = self._sides[index]
        event.record(side.marked, side.stream)

    def wait_for_mark(self, stream: int, index: int) -> None:
        """Let the next work of `stream` come behind what was marked."""
        driver.stream.wait_event(stream, self._sides[index].marked)

    def join(self, stream: int, index: int) -> None:
        """Let the next work of `stream` come behind all of the side stream. After its fork."""
        side = self._sides[index]
        event.record(side.done, side.stream)
        driver.stream.wait_event(stream, side.done)

    def close(self) -> None:
        """Wait for the streams and destroy them. Idempotent."""
        while self._sides:
            side = self._sides.pop()
            driver.stream.synchronize(side.stream)
            for made in side[1:]:
                event.destroy(made)
            driver.stream.destroy(side.stream)
