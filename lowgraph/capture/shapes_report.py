"""ShapesReport: what a cache of steps did, zeros included, as data and as text."""

from __future__ import annotations

import copy
from collections.abc import Hashable
from dataclasses import dataclass, field

from lowgraph.memory import readable

__all__ = ["ShapesReport"]


@dataclass
class ShapesReport:
    """Figures of a ShapeKeyedSteps since it was made.

    hits, misses: calls whose step was kept, and was not. evictions: steps closed for want of room,
        waits: those that had to be waited for because all were in flight. recaptures: misses of a
        key whose graph had been evicted. trimmed: bytes that evictions gave back to the driver.
    given_up: how often each key was left without a graph, first_reason: the first time's.
    kept, nbytes: steps kept at this moment, and the bytes of the pool that they keep.
    max_graphs, max_bytes: the budget.
    """

    hits: int = 0
    misses: int = 0
    evictions: int = 0
    waits: int = 0
    recaptures: int = 0
    trimmed: int = 0
    given_up: dict[Hashable, int] = field(default_factory=dict)
    first_reason: str = ""
    kept: int = 0
    nbytes: int = 0
    max_graphs: int = 0
    max_bytes: int | None = None

    def give_up(self, key: Hashable, reason: str) -> None:
        """Count that a key was left without a graph."""
        self.given_up[key] = self.given_up.get(key, 0) + 1
        self.first_reason = self.first_reason or reason

    def at(self, kept: int, nbytes: int, max_graphs: int, max_bytes: int | None) -> ShapesReport:
        """A copy with the figures of this moment."""
        report = copy.deepcopy(self)
        report.kept, report.nbytes = kept, nbytes
        report.max_graphs, report.max_bytes = max_graphs, max_bytes
        return report

    def text(self) -> str:
        """The report for people, one figure group a line."""
        budget = "no limit" if self.max_bytes is None else readable(self.max_bytes)
        times = sum(self.given_up.values())
        reason = f"; first: {self.first_reason}" if self.first_reason else ""
        lines = (
            f"steps by shape: {self.kept} of at most {self.max_graphs} kept, "
            f"{readable(self.nbytes)} of {budget}",
            f"  hits {self.hits}, misses {self.misses}, recaptures {self.recaptures}",
            f"  evictions {self.evictions} ({self.waits} waited for), "
            f"{readable(self.trimmed)} given back to the driver",
            f"  given up {times} times on {len(self.given_up)} keys{reason}",
        )
        return "\n".join(lines)
