"""The launches gate: what a replayed step sends to the driver, counted below lowgraph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lowgraph import counters
from lowgraph.train.gates.outcome import Gate
from lowgraph.train.gates.subject import Subject

__all__ = ["Sent", "launches"]

_GRAPH = "cuGraphLaunch"
_OUR_GATE = "lowgraph's own driver gate (what others send is not seen)"


@dataclass(frozen=True)
class Sent:
    """Driver calls of `steps` steps by kind; `other` are those that are none of these, by name."""

    graphs: int = 0
    kernels: int = 0
    copies: int = 0
    memory: int = 0
    syncs: int = 0
    other: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def of(calls: Mapping[str, int]) -> Sent:
        """Sort calls, by name without a version, into their kinds."""
        sums: dict[str, int] = {}
        other = []
        for name, count in sorted(calls.items()):
            kind = _kind(name)
            if kind is None:
                other.append((name, count))
            else:
                sums[kind] = sums.get(kind, 0) + count
        return Sent(**sums, other=tuple(other))

    def text(self) -> str:
        """All kinds in one line."""
        said = (
            f"{self.graphs} graph launches, {self.kernels} other launches, {self.copies} copies "
            f"and fills, {self.memory} allocations and frees, {self.syncs} syncs"
        )
        if not self.other:
            return f"{said}, no other call"
        return f"{said}; also {', '.join(f'{count} {name}' for name, count in self.other)}"


def launches(subject: Subject) -> Gate:
    """A replay is one graph launch and one launch a copy-in pin. figure: launches a step.

    The feed's waits for a slot are syncs before a step and not of it; the feed counts them.
    """
    steps = subject.steps
    subject.restore(subject.initial)
    subject.sync()
    feed = subject.parts.feeds.train
    waits = feed.waits
    calls, instrument = _counted(subject)
    waits = feed.waits - waits
    subject.sync()
    sent = Sent.of(calls)
    pins = subject.parts.graph_step.report().pin_launches
    expected = Sent(graphs=steps, kernels=pins * steps, syncs=waits)
    passed = replace(sent, other=()) == expected
    figure = (sent.graphs + sent.kernels) / steps
    detail = f"{steps} steps: {sent.text()}; {pins} copy-in pins, each a launch a step"
    if waits:
        detail += (
            f"; {waits} syncs are the feed's, before a step, for a place to write its batch to"
        )
    return Gate("launches", passed, figure, f"{detail}; counted by {instrument}")


def _counted(subject: Subject) -> tuple[dict[str, int], str]:
    """Run the steps; the calls they made by name, and what counted them."""
    with counters.scope() as own, subject.device.count_calls() as below:
        subject.graphed(subject.steps)
    if below.counted_by:
        return below.calls, below.counted_by
    return own.by_name, _OUR_GATE


def _kind(name: str) -> str | None:
    if name == _GRAPH:
        return "graphs"
    if name.startswith("cuLaunch"):  # kernels in all their forms, host functions
        return "kernels"
    if name.startswith(("cuMemcpy", "cuMemset")):
        return "copies"
    if name.startswith("cuMem"):
        return "memory"
    return "syncs" if name.endswith("Synchronize") else None
