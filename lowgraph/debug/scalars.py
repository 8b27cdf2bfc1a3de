"""Frozen scalars of a graph: by-value arguments and sizes that another step would have otherwise.

A capture refuses those that differ between its two passes. A seed, or a rate on a plateau of its
schedule, was equal in both: compare the graph with a later step.

    with pool.eager_pass(), Journal().watch() as later:
        body(stream)                       # a later step, launch by launch
    frozen(step.graph, later)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lowgraph.capture import CapturedGraph, Journal
from lowgraph.capture.records import LaunchRecord
from lowgraph.capture.scalars import launch_pairs
from lowgraph.debug.text import printable
from lowgraph.errors import ConfigError

__all__ = ["Frozen", "frozen"]

_SIZES = ("grid", "block", "dynamic shared memory")


@dataclass(frozen=True)
class Frozen:
    """What every replay has of the recorded step. launch: its number in the recording."""

    launch: int
    kernel: str
    where: str
    stage: str
    argument: str
    recorded: object
    later: object

    def __str__(self) -> str:
        """One line, fit for a terminal."""
        return printable(
            f"{self.where}: {self.argument} of {self.kernel} (launch {self.launch}) is "
            f"{self.recorded!r} in every replay, and {self.later!r} in the later step"
        )


def frozen(graph: CapturedGraph, later: Journal) -> list[Frozen]:
    """All that differ, in order of their launches, those in bodies of conditionals last.

    later: of an unrecorded pass of the same step. Raises ConfigError when it launched other kernels
    than the recording, as nothing can be compared then.
    """
    found: list[Frozen] = []
    for inside in (False, True):
        pairs = launch_pairs(graph.journal, later, inside)
        if pairs is None and not inside:
            raise ConfigError(
                f"the later step launched other kernels than the graph of {graph.label!r}: give "
                "the journal of a pass of the same body"
            )
        for number, (recorded, now) in enumerate(pairs or ()):
            found += _of_launch(number, recorded, now)
    return found


def _of_launch(number: int, recorded: LaunchRecord, now: LaunchRecord) -> Iterator[Frozen]:
    sizes = zip(_SIZES, recorded.sizes, now.sizes, strict=True)
    scalars = ((name, value, dict(now.scalars)[name]) for name, value in recorded.scalars)
    for name, before, after in (*sizes, *scalars):
        if before != after and not (before != before and after != after):  # two NaN are one
            yield Frozen(number, recorded.kernel, recorded.where, recorded.stage, name, before,
                         after)  # fmt: skip
