"""A second recording beside a live graph: the executable is updated, or another one is made."""

from __future__ import annotations

from collections.abc import Callable

from lowgraph.capture.graph import CapturedGraph
from lowgraph.capture.interrupts import shielded
from lowgraph.capture.passes import StepPasses
from lowgraph.capture.recording import Recording
from lowgraph.errors import ExecUpdateRejected, PoolError

__all__ = ["prime_again", "record_again"]


def prime_again(passes: StepPasses) -> None:
    """The priming pass; raises PoolError with the way out when two working sets do not fit."""
    try:
        passes.prime()
    except PoolError as error:
        raise PoolError(
            f"{error}; the recapture of {passes.label!r} needs a second working set beside that of "
            "the live graph: if both do not fit, recapture(free_first=True)"
        ) from error


def record_again(
    passes: StepPasses, live: CapturedGraph, go_live: Callable[[CapturedGraph], None]
) -> CapturedGraph:
    """Record the primed step; returns the graph that holds it: `live`, updated, or a new one.

    `go_live` is called with it. What `live` held before is the caller's to give back. Raises
    CaptureRefused and what the body raises: `live` is as it was then.
    """
    # A Ctrl-C between the update and what is noted of it would lose track of it.
    with passes.recorded() as recording, shielded():
        graph = _holding(recording, passes, live)
        go_live(graph)
    return graph


def _holding(recording: Recording, passes: StepPasses, live: CapturedGraph) -> CapturedGraph:
    try:
        live.update(recording)
    except ExecUpdateRejected as rejection:
        fresh = CapturedGraph(recording, passes.pool)
        passes.counts.count_rejection(rejection)
        return fresh
    return live
