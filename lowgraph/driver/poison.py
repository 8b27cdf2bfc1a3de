"""Poison: once a call answered a sticky code (700, 719 ...), no later call reaches the driver.

The driver would give the same code to every one of them, each looking like a new fault of an
innocent call. What is known instead is said each time: the first error, where it was first seen
(a kernel faults long before a call says so), and the replays since the last wait that went well.
Only return codes decide; no "last error" is ever asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowgraph.driver.callers import requester
from lowgraph.errors import ContextPoisoned

__all__ = ["Poison", "current", "forget", "graph_names", "mark", "note_replay", "note_sync", "shut"]


@dataclass(frozen=True)
class Poison:
    """The first sticky error of this process.

    first: its text. seen_at: file:line of the user's code whose call was told of it.
    replays: graph launches since the last successful wait for their stream, by the graph's label.
    """

    code: int
    name: str
    first: str
    seen_at: str
    replays: dict[str, int]

    def text(self) -> str:
        """What every refused call says."""
        return f"the first error was {self.first}; {self.history()}; start a new process"

    def history(self) -> str:
        """Where it was seen first, and the replays that may have done it."""
        total = sum(self.replays.values())
        labels = ", ".join(f"{count} of {label!r}" for label, count in self.replays.items())
        listed = f" ({labels})" if labels else ""
        return f"first seen at {self.seen_at}; replays since the last good sync: {total}{listed}"


current: Poison | None = None

shut: set[int] = set()
"""Why the gate may have to refuse a call: 0 for a poisoned context, or the number of a thread that
runs a host function (callbacks.py). One look for both: an empty set costs a call nothing more."""

# Labels of executable graphs by handle; the graph that makes one names it.
graph_names: dict[int, str] = {}

_replays: dict[tuple[int, int], int] = {}  # by stream and executable


def note_replay(executable: int, stream: int) -> None:
    """A graph was launched."""
    key = stream, executable
    _replays[key] = _replays.get(key, 0) + 1


def note_sync(stream: int) -> None:
    """A wait for a stream came back with success: its replays so far are not suspect any more.

    A wait for an event is none: it may be an old one, with replays behind it.
    """
    for key in [key for key in list(_replays) if key[0] == stream]:
        _replays.pop(key, None)  # another thread may wait for the same stream


def mark(code: int, name: str, first: str) -> Poison:
    """A call answered a sticky code; the first of the process is kept, and returned."""
    global current
    if current is None:
        replays: dict[str, int] = {}
        for (_, handle), count in list(_replays.items()):
            label = graph_names.get(handle, hex(handle))
            replays[label] = replays.get(label, 0) + count
        current = Poison(code, name, first, requester(), replays)
        shut.add(0)
    return current


def forget() -> None:
    """Believe in the context again: for tests that plant a sticky code where there is no fault."""
    global current
    current = None
    shut.discard(0)
    _replays.clear()


def refuse(poison: Poison, call: str, arguments: str) -> ContextPoisoned:
    """The error of a call that is not made."""
    text = f"not sent to the driver, the context is poisoned: {poison.text()}"
    return told(ContextPoisoned(call, arguments, poison.code, poison.name, text), poison)


def told(error: ContextPoisoned, poison: Poison) -> ContextPoisoned:
    """Give an error the attributes that the poison knows."""
    error.first, error.first_seen_at = poison.first, poison.seen_at
    error.replays = dict(poison.replays)
    return error
