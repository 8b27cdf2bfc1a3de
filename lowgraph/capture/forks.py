"""Forks: the streams that an event pulled into a capture, and whether their work leads back.

A stream forks when it waits for an event recorded in the capture, and is joined when the capture's
own stream waits, over however many events and streams, for a record behind its last operation. Only
plain records and waits do either: with the EXTERNAL flag they are nodes and order nothing. The
driver says 904 about any of it; which stream, forked where, and what hangs there, is said here.

Each stream has a count of its operations and, of every other stream, the count that its next
operation comes after (a vector clock); an event keeps the clock of its last record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lowgraph import driver
from lowgraph.capture.stream_calls import described
from lowgraph.driver.callers import requester
from lowgraph.errors import CaptureRefused
from lowgraph.stages import current, within

__all__ = ["Fork", "ForkTracker", "merge_of"]

_EXTERNAL = 1  # CU_EVENT_RECORD_EXTERNAL and CU_EVENT_WAIT_EXTERNAL


@dataclass
class Fork:
    """A stream in the capture besides its own. All places are file:line of the user.

    last: its last operation, "" if it has none. external: where an external event was recorded on
    it or waited for, which joins nothing. stage: that it was forked in, and then of its last
    operation.
    """

    stream: int
    forked_at: str
    last: str = ""
    external: list[str] = field(default_factory=list)
    stage: str = ""

    def text(self) -> str:
        """What is known of the fork."""
        last = f"last did {self.last}" if self.last else "with no operation through lowgraph"
        said = f"stream {self.stream:#x}, forked at {self.forked_at}, {last}{within(self.stage)}"
        if self.external:
            said += f"; an external event joins nothing: {', '.join(self.external)}"
        return said


class ForkTracker:
    """The streams and events of one capture, told of each call of its thread before it is made.

    Attributes: origin, streams (handles in the capture, the origin's too), events (recorded in it),
    forks by stream.
    """

    def __init__(self, origin: int) -> None:
        """Track the capture that begins on `origin`."""
        self.origin = origin
        self.streams = {origin}
        self.forks: dict[int, Fork] = {}
        self.events: dict[int, dict[int, int]] = {}
        self.outside: dict[int, str] = {}  # events recorded on other streams since the begin
        self._external: dict[int, tuple[int, str]] = {}
        self._done: dict[int, int] = {}
        self._behind: dict[int, dict[int, int]] = {origin: {}}

    def follow(self, op: str, args: tuple[Any, ...], stream: int | None) -> None:
        """Note what a call does to the capture's streams and events.

        stream: what `stream_of` says of the call.
        """
        if stream is not None:
            if stream in self.forks:  # the origin's own work is joined by being there
                self._work(stream, described(op, args))
        elif op == "cuEventRecord":
            self._record(int(args[0]), int(args[1]))
        elif op == "cuEventRecordWithFlags":
            if int(args[2]) & _EXTERNAL:
                self._record_external(int(args[0]), int(args[1]))
            else:
                self._record(int(args[0]), int(args[1]))
        elif op == "cuStreamWaitEvent":
            self._wait(int(args[0]), int(args[1]), int(args[2]) if len(args) > 2 else 0)
        elif op == "cuEventDestroy":
            self.events.pop(int(args[0]), None)

    def unjoined(self) -> list[Fork]:
        """Forks with work that the origin's next operation would not come after, oldest first."""
        reached = self._behind[self.origin]
        return [
            fork
            for stream, fork in self.forks.items()
            if reached.get(stream, 0) < self._done.get(stream, 0)
        ]

    def _work(self, stream: int, what: str) -> None:
        fork = self.forks.get(stream)
        if fork is not None:
            self._done[stream] = self._done.get(stream, 0) + 1
            fork.last = f"{what} at {requester()}"
            fork.stage = current()

    def _record(self, event: int, stream: int) -> None:
        self._external.pop(event, None)
        if stream not in self.streams:
            self.events.pop(event, None)
            self.outside[event] = requester()
            return
        self.outside.pop(event, None)
        self.events[event] = {**self._behind[stream], stream: self._done.get(stream, 0)}

    def _record_external(self, event: int, stream: int) -> None:
        self.events.pop(event, None)
        if stream in self.streams:
            self._external[event] = stream, requester()
            self._work(stream, "cuEventRecordWithFlags(external)")

    def _wait(self, stream: int, event: int, flags: int) -> None:
        if event in self._external or flags & _EXTERNAL:
            self._wait_external(stream, event)
            return
        clock = self.events.get(event)
        if clock is None:
            return
        if stream not in self.streams:
            self.streams.add(stream)
            self.forks[stream] = Fork(stream, requester(), stage=current())
            self._behind[stream] = {}
        behind = self._behind[stream]
        for other, count in clock.items():
            behind[other] = max(behind.get(other, 0), count)

    def _wait_external(self, stream: int, event: int) -> None:
        """A node that waits at each replay, and no edge from where the event was recorded."""
        recorded_on, recorded_at = self._external.get(event, (0, ""))
        fork = self.forks.get(recorded_on)
        if fork is not None:
            fork.external.append(f"recorded at {recorded_at}, waited for at {requester()}")
        if stream in self.streams:
            self._work(stream, "cuStreamWaitEvent(external)")


def merge_of(stream: int, label: str) -> CaptureRefused | None:
    """Refuse a wait for an event of this capture by a stream of another; None: it is in none."""
    if driver.stream.capture_status(stream) == "none":
        return None
    return CaptureRefused(
        f"stream {stream:#x}, which is in another capture, would wait for an event of the capture "
        f"{label!r}: that would break both (902)",
        requester(),
        "fork a stream that is in no capture",
    )
