"""The gates over the state behind replays: positive, moves, repeats."""

from __future__ import annotations

from collections.abc import Callable

from lowgraph.errors import LowgraphError
from lowgraph.train.gates.differences import Difference, differences, first_of
from lowgraph.train.gates.outcome import Gate
from lowgraph.train.gates.subject import Snapshot, Subject

__all__ = ["moves", "positive", "repeats"]

Arm = Callable[[int, Snapshot | None], Snapshot]


def positive(subject: Subject) -> Gate:
    """Graphed steps end with the bits of eager steps. figure: elements that differ."""
    graphed = subject.after_graphed(subject.steps)
    eager = subject.after_eager(subject.steps)
    found = differences(subject, graphed, eager)
    compared = sum(1 for _ in subject.tensors(eager))
    if not found:
        said = f"{subject.steps} graphed steps equal {subject.steps} eager ones bit for bit"
        return Gate("positive", True, 0, f"{said} in {compared} buffers")
    detail = f"{len(found)} of {compared} buffers differ after {subject.steps} steps"
    place = _first(subject, subject.after_eager, found)
    return Gate("positive", False, _elements(found), f"{detail}; {place}")


def moves(subject: Subject) -> Gate:
    """Replays change every parameter. figure: the tensors that changed."""
    after = subject.after_graphed(subject.steps)
    arena = subject.parts.model.parameters
    changed = {one.piece.name for one in differences(subject, subject.initial, after)}
    still = [name for name, piece in arena.items() if piece.name not in changed]
    count = len(arena) - len(still)
    detail = f"{subject.steps} replays changed {count} of {len(arena)} parameters"
    if still:
        detail += f"; unchanged: {', '.join(still[:5])}{' ...' if len(still) > 5 else ''}"
    return Gate("moves", not still, count, detail)


def repeats(subject: Subject) -> Gate:
    """The same replays from the same snapshot end with the same bits. figure: as positive's."""
    first = subject.after_graphed(subject.steps)
    second = subject.after_graphed(subject.steps)
    found = differences(subject, first, second)
    if not found:
        detail = f"{subject.steps} replays from one snapshot, twice: bit for bit the same"
        return Gate("repeats", True, 0, detail)
    detail = f"{subject.steps} replays from one snapshot, twice: {len(found)} buffers differ"
    place = _first(subject, subject.after_graphed, found)
    return Gate("repeats", False, _elements(found), f"{detail}; {place}")


def _elements(found: list[Difference]) -> int:
    return sum(one.elements for one in found)


def _first(subject: Subject, other: Arm, at_the_end: list[Difference]) -> str:
    """The first difference to a second arm, found again one step at a time.

    Both arms start each step from one state, so that what differs was written in that step.
    """
    start = subject.initial
    for number in range(1, subject.steps + 1):
        ours = subject.after_graphed(1, start)
        theirs = other(1, start)
        found = differences(subject, ours, theirs)
        if found:
            return f"first, in step {number}: {_written(subject, found)}"
        start = theirs
    return f"step by step nothing differs; at the end {_written(subject, at_the_end)}"


def _written(subject: Subject, found: list[Difference]) -> str:
    graph = subject.parts.graph_step.graph
    if graph is None:
        raise LowgraphError(f"the step lost its graph: {subject.parts.graph_step.report().phase}")
    one, writer = first_of(graph.journal, found)
    return f"{one}, last written by {writer or 'no launch in the journal'}"
