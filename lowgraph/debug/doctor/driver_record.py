"""Captures as the driver sees them, from events: others' captures, and what slipped past ours.

The events come from the host device (`hostdev.watch`), or, on a GPU, from the gate, which sees the
calls that go through lowgraph (`gate_record`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lowgraph.debug.doctor.findings import LOWGRAPH, CaptureSeen, Leak, RefusedCall
from lowgraph.debug.doctor.frames import caller
from lowgraph.driver import captures, forked
from lowgraph.hostdev.watch import CaptureEvent
from lowgraph.memory import counted

__all__ = ["DriverRecord"]

_SYNCS = frozenset({"cuStreamSynchronize", "cuStreamQuery", "cuEventSynchronize", "cuEventQuery"})
_MEMORY = frozenset({"mem_alloc", "mem_free"})


class DriverRecord:
    """Takes events in; `captures` are those that no window of lowgraph made, `leaks` are of all.

    beside: works of other threads on streams of theirs meanwhile, by what they were.
    say: told of each capture of others that ends.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.captures: list[CaptureSeen] = []
        self.leaks: list[Leak] = []
        self.beside: dict[str, int] = {}
        self._open: dict[int, CaptureSeen] = {}
        self._breaks: dict[str, RefusedCall] = {}  # of windows, by label
        self._modes: dict[str, str] = {}  # of windows, by label
        self._lock = forked.lock()
        self._say = say
        self._acts: dict[str, Callable[[CaptureSeen, CaptureEvent], None]] = {
            "ended": self._ended,
            "broken": self._broken,
            "refused": self._refused,
            "elsewhere": self._elsewhere,
            "let through": self._let_through,
        }

    def on_event(self, event: CaptureEvent) -> None:
        """Note one event, in the thread that caused it."""
        with self._lock:
            if event.kind == "begun":
                self._begun(event)
                return
            seen = self._open.get(event.capture)
            if seen is not None:  # else it had begun before anybody listened
                self._acts[event.kind](seen, event)

    def take_break(self, label: str) -> RefusedCall | None:
        """The call that broke the window of that label, once."""
        with self._lock:
            return self._breaks.pop(label, None)

    def mode_of(self, label: str) -> str:
        """The mode of the latest window of that label, "" if none was seen."""
        return self._modes.get(label, "")

    # ---- events ----

    def _begun(self, event: CaptureEvent) -> None:
        where, by = caller()
        window = captures.window()
        ours = window is not None and window.thread is threading.current_thread()
        label = f"stream {event.stream:#x}"
        if window is not None and ours:
            by, label = LOWGRAPH, window.label
            self._breaks.pop(label, None)
            self._modes[label] = event.what
        seen = CaptureSeen(label, by, event.what, where)
        self._open[event.capture] = seen
        if by != LOWGRAPH:
            self.captures.append(seen)

    def _ended(self, seen: CaptureSeen, event: CaptureEvent) -> None:
        del self._open[event.capture]
        seen.code, seen.outcome = event.code, "failed" if event.code else "recorded"
        for line in event.what.splitlines():
            count, _, title = line.partition(" ")
            kind, _, kernel = title.partition(" ")
            seen.count(kind, kernel, int(count))
        if seen.by == LOWGRAPH:
            return
        memory = [f"{count} {kind}" for kind, count in seen.nodes.items() if kind in _MEMORY]
        if memory:
            what = f"the graph has {', '.join(memory)} nodes"
            began = seen.began_at
            self._leak(Leak("allocation", seen.label, "", what, began, began))
        if event.code and seen.broken is None:  # not joined, or ended by the wrong thread
            seen.refused.append(RefusedCall(event.call, event.code, caller()[0], event.own))
        self._merge(seen)
        size = counted(seen.size, "node")
        self._say(f"{seen.outcome} by {seen.by}: {size}, begun at {seen.began_at}")

    def _merge(self, seen: CaptureSeen) -> None:
        """A program may record the same a thousand times."""
        for known in self.captures:
            if known is not seen and replace(known, times=1) == seen:
                known.times += 1
                self.captures = [one for one in self.captures if one is not seen]
                return

    def _broken(self, seen: CaptureSeen, event: CaptureEvent) -> None:
        call = RefusedCall(event.call, event.code, caller()[0], event.own)
        seen.broken = call
        seen.refused.append(call)
        if seen.by == LOWGRAPH:
            self._breaks[seen.label] = call

    def _refused(self, seen: CaptureSeen, event: CaptureEvent) -> None:
        call = RefusedCall(event.call, event.code, caller()[0], event.own)
        if event.call == "cuStreamEndCapture" and seen.broken is not None:
            return  # its code is the end's own
        for known in seen.refused:
            if (known.call, known.code, known.where) == (call.call, call.code, call.where):
                known.times += 1
                return
        seen.refused.append(call)

    def _elsewhere(self, seen: CaptureSeen, event: CaptureEvent) -> None:
        where, _ = caller()
        if not event.own:
            self.beside[event.what] = self.beside.get(event.what, 0) + 1
            return
        kind = "allocation" if event.what in _MEMORY else "work"
        told = event.call, event.what, where, seen.began_at, event.stream
        self._leak(Leak(kind, seen.label, *told))

    def _let_through(self, seen: CaptureSeen, event: CaptureEvent) -> None:
        if event.own:
            kind = "allocation" if event.call.startswith("cuMem") else "call"
            kind = "synchronisation" if event.call in _SYNCS else kind
            told = event.call, event.call, caller()[0], seen.began_at
            self._leak(Leak(kind, seen.label, *told))

    def _leak(self, leak: Leak) -> None:
        for known in self.leaks:
            if _same(known, leak):
                known.times += 1
                return
        self.leaks.append(leak)


def _same(one: Leak, two: Leak) -> bool:
    return _key(one) == _key(two)


def _key(leak: Leak) -> tuple[Any, ...]:
    return leak.kind, leak.capture, leak.call, leak.what, leak.where, leak.stream
