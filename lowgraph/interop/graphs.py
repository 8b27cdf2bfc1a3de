"""Streams and recorded graphs of ours for other libraries, by handle.

A graph's handles are the driver's, and the runtime's: they are interchangeable. What is launched by
them is not seen here: no pin is followed, no input checked, and `close` waits for the graph's own
stream only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lowgraph.capture import CapturedGraph, GraphStep, Input
from lowgraph.driver import node
from lowgraph.errors import ConfigError

__all__ = ["RawGraph", "SharedStream", "add_child", "raw_graph"]


class SharedStream:
    """A stream of ours for libraries that take `__cuda_stream__`, as cuda.core does.

    owner: kept alive with it, e.g. the step whose stream it is.
    """

    def __init__(self, handle: int, owner: object = None) -> None:
        self.handle = handle
        self.owner = owner

    def __cuda_stream__(self) -> tuple[int, int]:
        """Version of the protocol, and the CUstream."""
        return 0, self.handle


class RawGraph(NamedTuple):
    """Handles of a recorded graph: a CUgraph (cudaGraph_t) and a CUgraphExec (cudaGraphExec_t).

    Both are the recorded step's: valid until it is closed or recorded anew, and not the caller's to
    destroy, to change or to update.
    """

    graph: int
    executable: int


def raw_graph(subject: GraphStep | CapturedGraph) -> RawGraph:
    """The handles, for a launch or a look by somebody else's code.

    `graph` holds what was recorded, `executable` what was set in it since. Raises ConfigError for a
    step without a graph, and for one with pins that only its own replays follow; PhaseError once
    closed.
    """
    graph = _unpinned(subject)
    return RawGraph(graph.raw_graph, graph.raw_executable)


def add_child(parent: int, subject: GraphStep | CapturedGraph, after: Sequence[int] = ()) -> int:
    """Add what a step recorded to a CUgraph as a child node, behind nodes of it; returns the node.

    The driver takes a copy of the nodes. They point at memory that `subject` keeps: it has to stay
    open for as long as the parent's executables run. Raises as `raw_graph` does, and DriverError.
    """
    graph = _unpinned(subject)
    return node.add_child(parent, graph.raw_graph, after)


def _unpinned(subject: GraphStep | CapturedGraph) -> CapturedGraph:
    if isinstance(subject, CapturedGraph):
        return subject
    if subject.graph is None:
        why = subject.report().why_no_graph
        raise ConfigError(f"{subject.label!r} has no graph to hand out: {why}")
    pins = [pin for pin in subject.declared if not isinstance(pin, Input)]
    if pins:
        names = ", ".join(f"{pin.kind} {pin.name!r}" for pin in pins)
        raise ConfigError(
            f"the graph of {subject.label!r} cannot be handed out: {names} would not be followed "
            "by somebody else's launch; copy into memory that does not move, declared as Input"
        )
    return subject.graph
