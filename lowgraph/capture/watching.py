"""Who is told of every recording in the process: passes, refusals, graphs that live and end.

    with watching.listening(listener):
        ...

`python -m lowgraph doctor` listens. While nobody does, a recording pays a look at a tuple, and a
replay nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from lowgraph.driver import forked
from lowgraph.errors import CaptureRefused

if TYPE_CHECKING:
    from lowgraph.capture.census import Census
    from lowgraph.capture.graph import CapturedGraph
    from lowgraph.capture.journal import Journal
    from lowgraph.capture.pins import Pin

__all__ = ["Listener", "closing", "joined", "listening", "live", "primed", "recorded", "refused"]


class Listener(Protocol):
    """What is told, in the thread that does it, outside of any window."""

    def primed(self, step: object, journal: Journal) -> None:
        """A priming pass of a step is over. step: tells steps apart."""

    def recorded(self, step: object, journal: Journal, pins: tuple[Pin, ...]) -> None:
        """A step's recording, of this journal, is live. pins: the memory that it declared."""

    def live(self, graph: CapturedGraph, began_at: str) -> None:
        """A graph can be launched, or was updated. began_at: file:line of its window."""

    def joined(self, label: str, census: Census, began_at: str) -> None:
        """A part's nodes were added to a capture of others. began_at: file:line of its window."""

    def refused(self, label: str, refusal: CaptureRefused, began_at: str) -> None:
        """An attempt was refused; a window and its step may both tell of one refusal."""

    def closing(self, graph: CapturedGraph) -> None:
        """A graph is about to be closed."""


_lock = forked.lock()
_listeners: tuple[Listener, ...] = ()


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell `listener` until the block ends, beside those before; it must not raise."""
    global _listeners
    with _lock:
        _listeners = (*_listeners, listener)
    try:
        yield
    finally:
        with _lock:
            _listeners = tuple(each for each in _listeners if each is not listener)


def primed(step: object, journal: Journal) -> None:
    """See Listener."""
    for listener in _listeners:
        listener.primed(step, journal)


def recorded(step: object, journal: Journal, pins: tuple[Pin, ...]) -> None:
    """See Listener."""
    for listener in _listeners:
        listener.recorded(step, journal, pins)


def live(graph: CapturedGraph, began_at: str) -> None:
    """See Listener."""
    for listener in _listeners:
        listener.live(graph, began_at)


def joined(label: str, census: Census, began_at: str) -> None:
    """See Listener."""
    for listener in _listeners:
        listener.joined(label, census, began_at)


def refused(label: str, refusal: CaptureRefused, began_at: str = "") -> None:
    """See Listener."""
    for listener in _listeners:
        listener.refused(label, refusal, began_at)


def closing(graph: CapturedGraph) -> None:
    """See Listener."""
    for listener in _listeners:
        listener.closing(graph)
