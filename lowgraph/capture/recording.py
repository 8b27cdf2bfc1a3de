"""Recording: what a window leaves behind, and who keeps memory for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lowgraph.capture.census import Census
from lowgraph.capture.journal import Journal
from lowgraph.memory import PassFigures

__all__ = ["Owner", "Recording"]


class Owner:
    """What the pool knows a graph by."""

    def __init__(self, label: str) -> None:
        """Make an owner of nothing yet."""
        self.label = label
        self.adopted = False  # by a CapturedGraph, which gives back what it holds
        self.undo: list[Callable[[], None]] = []
        self.stream: object = None  # what the stream's handle is of, which launches are waited on

    def let_go(self) -> None:
        """Let go of what the pool does not know: the graph's host calls. Idempotent.

        Call it once no launch is in flight.
        """
        while self.undo:
            self.undo.pop()()

    def __str__(self) -> str:
        """Return the label."""
        return self.label


@dataclass(frozen=True)
class Recording:
    """A captured graph that stood every check: its handle, what it holds, and who holds memory.

    unowned: addresses that its kernels were given and that no slice of the pool covers. bodies:
    graphs of its conditional nodes, those inside of others too. began_at: file:line of the window.
    """

    graph: int
    stream: int
    label: str
    census: Census
    journal: Journal
    figures: PassFigures
    owner: Owner
    unowned: tuple[int, ...]
    bodies: tuple[int, ...] = ()
    began_at: str = ""
