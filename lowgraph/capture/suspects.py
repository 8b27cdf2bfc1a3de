"""Suspects: what other threads called while a window was open.

They are no part of the pass, but when the driver says that a capture is broken (901) and no call of
its own thread did it, one of them did, or a library that does not come through lowgraph.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from lowgraph.stages import within

__all__ = ["Suspect", "Suspects"]

_KEPT = 1000  # a watchdog may poll for as long as the window is open
_TOLD = 8


@dataclass(frozen=True)
class Suspect:
    """A driver call of another thread. code: its answer.

    where: file:line of its user's frame; stage: that its thread was in, "" if none.
    """

    thread: str
    op: str
    args: str
    code: int
    where: str
    stage: str = ""

    def __str__(self) -> str:
        called = f"{self.op}({self.args})"
        return f"{self.thread}: {called} answered {self.code}{within(self.stage)} ({self.where})"


class Suspects:
    """The calls of other threads in one window; the newest thousand are kept, all are counted."""

    def __init__(self) -> None:
        """Make an empty list."""
        self.count = 0
        self._calls: deque[Suspect] = deque(maxlen=_KEPT)

    def add(self, suspect: Suspect) -> None:
        """Note one call."""
        self.count += 1
        self._calls.append(suspect)

    def newest_first(self) -> tuple[Suspect, ...]:
        """The calls that were kept."""
        return tuple(reversed(self._calls))

    def text(self) -> str:
        """The newest in words, and how many more there were."""
        if not self.count:
            return "none through lowgraph"
        told = "; ".join(str(one) for one in self.newest_first()[:_TOLD])
        more = self.count - _TOLD
        return f"{told}; and {more} earlier ones" if more > 0 else told
