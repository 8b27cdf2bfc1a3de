"""Census: what a recorded graph holds, and whether that is what the window sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from lowgraph.capture.journal import Journal, LaunchRecord
from lowgraph.driver import graph as graphs
from lowgraph.errors import CaptureIncomplete, CaptureRefused, EmptyCapture, GraphHasMemoryNodes
from lowgraph.memory.stats import counted
from lowgraph.stages import within

__all__ = ["Census", "judge", "take_census"]

_MEMORY_NODES = ("mem_alloc", "mem_free")


@dataclass(frozen=True)
class Census:
    """Nodes of a graph. types: number of nodes by type. functions: of the kernel nodes.

    in_bodies: number of nodes by type in the bodies of its conditional nodes, which `functions` has
    too, each once.
    """

    nodes: int
    types: dict[str, int]
    functions: tuple[int, ...]
    in_bodies: dict[str, int] = field(default_factory=dict)

    @property
    def kernels(self) -> int:
        """Number of kernel nodes."""
        return len(self.functions)

    def text(self) -> str:
        """One line: "12 nodes (10 kernel, 2 memset)"."""
        inner = sum(self.in_bodies.values())
        bodies = f", {inner} more in bodies ({_counted(self.in_bodies)})" if inner else ""
        types = f" ({_counted(self.types)})" if self.types else ""
        return f"{counted(self.nodes, 'node')}{types}{bodies if types else ''}"


def _counted(types: dict[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(types.items()))


def take_census(graph: int, bodies: Sequence[int] = ()) -> Census:
    """Count a graph's nodes (cuGraphGetNodes, cuGraphNodeGetType, cuGraphKernelNodeGetParams).

    bodies: graphs of its conditional nodes, which the driver does not tell afterwards.
    """
    kinds = [(node, graphs.node_type(node)) for node in graphs.nodes(graph)]
    inner = [(node, graphs.node_type(node)) for body in bodies for node in graphs.nodes(body)]
    both = [*kinds, *inner]
    functions = tuple(graphs.function_of(node) for node, kind in both if kind == "kernel")
    return Census(len(kinds), _by_type(kinds), functions, _by_type(inner))


def _by_type(kinds: list[tuple[int, str]]) -> dict[str, int]:
    return dict(Counter(kind for _, kind in kinds))


def judge(census: Census, journal: Journal, label: str, began_at: str) -> CaptureRefused | None:
    """What is wrong with the graph of a window, given what was sent in it; None if nothing is."""
    memory = {kind: census.types[kind] for kind in _MEMORY_NODES if kind in census.types}
    if memory:
        counted = ", ".join(f"{count} {kind}" for kind, count in memory.items())
        return GraphHasMemoryNodes(
            f"the graph of {label!r} has {counted} nodes: each launch would allocate anew, "
            "unseen by the pool",
            began_at,
            "take memory from the pool; give cuBLAS a workspace before the step",
        )
    missing = _missing(census, journal.launches)
    if missing:
        first = missing[0]
        names = ", ".join(map(_told, missing[:5]))
        return CaptureIncomplete(
            f"{len(missing)} of {len(journal.launches)} launches in the window of {label!r} are "
            f"not in the graph: {names}",
            first.where,
            "launch on the stream that the body is given",
            stage=first.stage,
        )
    if census.nodes == 0:
        return EmptyCapture(
            f"the window of {label!r} recorded nothing: replays would do nothing",
            began_at,
            "launch on the stream that the body is given",
        )
    if census.kernels < journal.kernel_launches:
        return CaptureIncomplete(
            f"the graph of {label!r} has {census.kernels} kernel nodes, the window sent "
            f"{journal.kernel_launches} kernels",
            began_at,
        )
    return None


def _told(launch: LaunchRecord) -> str:
    return f"{launch.kernel} on stream {launch.stream:#x}{within(launch.stage)}"


def _missing(census: Census, launches: list[LaunchRecord]) -> list[LaunchRecord]:
    """Launches for which no kernel node of their function is left."""
    left = Counter(census.functions)
    missing = []
    for launch in launches:
        if left[launch.function]:
            left[launch.function] -= 1
        else:
            missing.append(launch)
    return missing
