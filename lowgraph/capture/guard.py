"""WindowGuard: what has no place in a capture window is refused before the driver sees it.

Some of them would invalidate the capture (facts: 900), some would slip through and be missing from
every replay, or be in it with a host address that nobody keeps: work on a stream that is not in the
capture and synchronous copies run at once without an error, and a copy from pageable memory becomes
a node that reads that address again. Other threads are judged by other_threads.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lowgraph import driver
from lowgraph.capture import body_rules, other_threads
from lowgraph.capture.forks import ForkTracker, merge_of
from lowgraph.capture.misplaced import misplaced
from lowgraph.capture.stream_calls import HOST_ADDRESSES, described, stream_of
from lowgraph.driver import gate
from lowgraph.errors import (
    BlockingCaptureStream,
    CaptureIncomplete,
    CaptureRefused,
    PageableHostMemory,
    UnjoinedFork,
)
from lowgraph.memory import open_window
from lowgraph.memory.open_window import OpenWindow

__all__ = ["SPECIAL_STREAMS", "WindowGuard"]

SPECIAL_STREAMS = {0: "the legacy stream", 1: "the legacy stream", 2: "the per-thread stream"}


class WindowGuard:
    """The gate's `guard` while a window is open: called with each driver call before it is made.

    Other threads are checked from the first call on, the window's own while `armed`: its begin and
    its end are calls that it would refuse. `forks` follows the streams that are in the capture;
    while the body of a conditional is recorded, those of the body's. before_call: told of each call
    of the window's thread, before it is judged.
    """

    def __init__(self, window: OpenWindow) -> None:
        """Guard a window of the calling thread."""
        self.label = window.label
        self.armed = False
        self.before_call: Callable[[], None] | None = None
        self._body: body_rules.OpenBody | None = None
        # Of the capture, and of the body in it that is open, and so on. Another thread may look at
        # any moment: it is replaced as a whole.
        self._open: tuple[ForkTracker, ...] = (ForkTracker(window.stream),)
        self._window = window
        self._thread = threading.get_ident()

    @property
    def forks(self) -> ForkTracker:
        """Of the innermost capture that is open."""
        return self._open[-1]

    def __call__(self, op: str, args: tuple[Any, ...]) -> None:
        """Raise a CaptureRefused that names the user's line, or let the call pass."""
        if threading.get_ident() != self._thread:
            for forks in self._open:
                other_threads.check(op, args, self._window, forks)
            following = gate.guard
            if following is not None and following is not self:  # the next window opened meanwhile
                following(op, args)
        elif self.armed:
            if self.before_call is not None:
                self.before_call()
            stream = stream_of(op, args)
            error = self._breach(op, args)
            if error is None:
                error = self._judge(op, args) if stream is None else self._sent(op, args, stream)
            if error is not None:
                raise open_window.refused(error)
            self.forks.follow(op, args, stream)

    def let_others_finish(self) -> None:
        """Call it once the guard stands, before the begin."""
        other_threads.let_finish(self._window, self.forks)

    @contextmanager
    def disarmed(self) -> Iterator[None]:
        """Let the window's own calls pass that it refuses of others."""
        before, self.armed = self.armed, False
        try:
            yield
        finally:
            self.armed = before

    @contextmanager
    def inside(self, body: body_rules.OpenBody, stream: int) -> Iterator[None]:
        """Guard the body of a conditional that `stream` is recording."""
        around, outer, self._body = self._body, self._open, body
        self._open = (*outer, ForkTracker(stream))
        try:
            yield
        finally:
            inner, self._body, self._open = self.forks, around, outer
            # A wait for one of its events would break the capture around it.
            self.forks.outside.update(dict.fromkeys(inner.events, f"the {body.label}"))

    def check_forks(self) -> None:
        """Tell the journal of forks that are still open; call it right before the end."""
        forks = self.forks.unjoined()
        if not forks:
            return
        listed = "; ".join(fork.text() for fork in forks)
        error = UnjoinedFork(
            f"{len(forks)} forked stream(s) of the capture {self.label!r} are not joined: {listed}",
            forks[0].forked_at,
            "record a plain event behind the fork's last work and let the capture's stream wait "
            "for it",
            stage=forks[0].stage,
        )
        error.forks = tuple(forks)
        open_window.refused(error)

    def _breach(self, op: str, args: tuple[Any, ...]) -> CaptureRefused | None:
        """What has its place in a window and not in the body of a conditional."""
        body, outer = self._body, self._open[:-1]
        if body is None:
            return None
        return body_rules.misplaced(body, outer, op, args) or body_rules.judge(body, op, args)

    def _judge(self, op: str, args: tuple[Any, ...]) -> CaptureRefused | None:
        if op == "cuStreamWaitEvent":
            waiting, event = int(args[0]), int(args[1])
            return self._outside_event(waiting, event) or self._blocking_fork(waiting, event)
        said = f"{op} was called in the capture window of {self.label!r}"
        return misplaced(op, said, open_window.requester())

    def _sent(self, op: str, args: tuple[Any, ...], stream: int) -> CaptureRefused | None:
        if stream in self.forks.streams:
            return self._pageable(op, args) if op in HOST_ADDRESSES else None
        streams = ", ".join(map(hex, sorted(self.forks.streams)))
        return CaptureIncomplete(
            f"{described(op, args)} was sent to stream {stream:#x} in the capture window of "
            f"{self.label!r}: it would run at once and be in no replay (capturing: {streams})",
            open_window.requester(),
            "use the stream that the body is given, or fork from it with an event",
        )

    def _pageable(self, op: str, args: tuple[Any, ...]) -> CaptureRefused | None:
        for place in HOST_ADDRESSES[op]:
            if body_rules.is_pageable_at(args[place], int(args[2])):
                return PageableHostMemory(
                    f"{op} in the capture window of {self.label!r} names {int(args[2])} bytes of "
                    "pageable host memory: every replay would use that address again, whatever "
                    "is there by then",
                    open_window.requester(),
                    "copy from or to a staging slot of the pool, which is pinned and never moves",
                )
        return None

    def _outside_event(self, stream: int, event: int) -> CaptureRefused | None:
        recorded_at = self.forks.outside.get(event)
        if recorded_at is None or stream not in self.forks.streams:
            return None
        return CaptureRefused(
            f"stream {stream:#x} of the capture {self.label!r} would wait for an event recorded "
            f"outside of it, at {recorded_at}; that would break the capture (905)",
            open_window.requester(),
            "wait for work from outside before the step, or fork the other stream in first",
        )

    def _blocking_fork(self, stream: int, event: int) -> CaptureRefused | None:
        if stream in self.forks.streams or event not in self.forks.events:
            return None
        special = SPECIAL_STREAMS.get(stream)
        if special is None:
            other = merge_of(stream, self.label)  # its flags would break a capture that it is in
            with driver.stream.relaxed():
                if other or not driver.stream.is_blocking(stream):
                    return other
        what = special or f"stream {stream:#x}, a blocking stream,"
        return BlockingCaptureStream(
            f"{what} would be forked into the capture {self.label!r}: any work of any thread on "
            "the legacy stream would break it (906)",
            open_window.requester(),
            "make the stream with driver.stream.create(), which is non-blocking",
        )
