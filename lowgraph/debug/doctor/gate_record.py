"""Events of captures where no host device tells of them: from the calls that pass lowgraph's gate.

What others send to the driver is not seen here: on a GPU nothing below us tells of it, but a probe
pass finds what of it goes to the legacy stream.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lowgraph.capture.forks import ForkTracker
from lowgraph.capture.stream_calls import AT_ONCE, described, stream_of
from lowgraph.driver import captures, gate
from lowgraph.driver.stream import capture_status_unheard
from lowgraph.hostdev.watch import CaptureEvent

__all__ = ["GateRecord"]

_BEGIN, _END = "cuStreamBeginCapture", "cuStreamEndCapture"
_NOT_READY, _INVALIDATED = 600, 901
_LET_THROUGH = captures.UNSAFE - {"cuStreamDestroy", "cuEventDestroy"}
_WORD = {"Memcpy": "memcpy", "Memset": "memset", "LaunchHost": "host"}
_MODES = ("global", "thread_local", "relaxed")  # by the driver's number


@dataclass
class _Open:
    number: int
    stream: int
    mode: str
    thread: int
    forks: ForkTracker
    sent: Counter[str] = field(default_factory=Counter)
    broken: bool = False

    @property
    def allows_all(self) -> bool:
        """Whether its mode, or that of its thread, lets unsafe calls of its thread through."""
        return self.mode == "relaxed" or captures.is_relaxed(self.thread)


class GateRecord:
    """Makes events of the gate's calls and tells `listener`, unless `is_told` says that others do.

    Nodes are counted as they are sent: memory nodes and those of libraries are missing.
    """

    def __init__(
        self, listener: Callable[[CaptureEvent], None], is_told: Callable[[], bool]
    ) -> None:
        self._listener = listener
        self._is_told = is_told
        self._open: dict[int, _Open] = {}
        self._next = 1

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen at the gate in the block, beside whatever listened before."""
        before = gate.observer

        def observer(op: str, args: tuple[Any, ...], code: int) -> None:
            if before is not None:
                before(op, args, code)
            self.on_call(op, args, code)

        gate.observer = observer
        try:
            yield
        finally:
            if gate.observer is observer:
                gate.observer = before

    def on_call(self, op: str, args: tuple[Any, ...], code: int) -> None:
        """The gate's observer: a call was answered."""
        if op == _BEGIN and not code and not self._is_told():
            self._begin(args)
        if not self._open:
            return
        if op == _END:
            self._end(int(args[0]), code)
            return
        for capture in list(self._open.values()):
            self._seen(capture, op, args, code)

    def _begin(self, args: tuple[Any, ...]) -> None:
        stream = int(args[0])
        mode = _MODES[int(args[1])]
        made = _Open(self._next, stream, mode, threading.get_ident(), ForkTracker(stream))
        self._next += 1
        self._open[stream] = made
        self._tell(made, "begun", _BEGIN, mode)

    def _end(self, stream: int, code: int) -> None:
        capture = self._open.pop(stream, None)
        if capture is not None:
            text = "".join(f"{count} {title}\n" for title, count in sorted(capture.sent.items()))
            self._tell(capture, "ended", _END, text, code)

    def _seen(self, capture: _Open, op: str, args: tuple[Any, ...], code: int) -> None:
        own = threading.get_ident() == capture.thread
        if code not in (0, _NOT_READY):
            if capture.broken:
                if stream_of(op, args) in capture.forks.streams:
                    self._tell(capture, "refused", op, "", code)
            elif capture_status_unheard(capture.stream) == "invalidated":
                capture.broken = True
                # 901: it was broken before this call, by one that did not pass the gate.
                kind = "refused" if code == _INVALIDATED else "broken"
                self._tell(capture, kind, op, "", code)
            return
        stream = stream_of(op, args)
        if own:
            capture.forks.follow(op, args, stream)
        if op in AT_ONCE:
            self._tell(capture, "elsewhere", op, _what(op, args), stream=1)
        elif stream is not None and stream in capture.forks.streams:
            capture.sent[_what(op, args)] += 1
        elif stream is not None:
            self._tell(capture, "elsewhere", op, _what(op, args), stream=stream)
        elif op in _LET_THROUGH and capture.allows_all:
            self._tell(capture, "let through", op, "")

    def _tell(
        self, capture: _Open, kind: str, op: str, what: str, code: int = 0, stream: int = 0
    ) -> None:
        own = threading.get_ident() == capture.thread
        event = CaptureEvent(kind, op, what, capture.number, stream or capture.stream, code, own)
        self._listener(event)


def _what(op: str, args: tuple[Any, ...]) -> str:
    """The work in the words of the host device: "kernel NAME", "memcpy"."""
    told = described(op, args)
    return next((word for part, word in _WORD.items() if part in told), told)
