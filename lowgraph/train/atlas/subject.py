"""Subject: a step to be measured, and its kernels by stage: of an eager pass, and of a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lowgraph.capture import CapturedGraph, GraphStep, Journal
from lowgraph.capture.journal import LibraryCall
from lowgraph.driver import Device
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, open_window

__all__ = ["Kernels", "Key", "Subject", "by_stage"]

Key = tuple[str, str]
"""Full name of a stage, "" outside of any, and name of a kernel, or a node's type."""

Kernels = Counter[Key]


def _alone(run: Callable[[], object]) -> None:
    run()


@dataclass(frozen=True)
class Subject:
    """A step as GraphStep takes it: a body that enqueues one step on the stream it is given.

    around: called for each step with what issues it, which it calls once; what the host has to do
    before and behind a step, such as to stage its batch, is done there.
    """

    body: Callable[[int], None]
    device: Device
    pool: PersistentPool
    library: Library
    stream: int
    label: str = "step"
    around: Callable[[Callable[[], object]], None] = _alone

    def graph_step(self, body: Callable[[int], None], label: str, graph: bool = True) -> GraphStep:
        """A GraphStep of its own over a body, with this subject's memory and stream."""
        return GraphStep(
            body,
            device=self.device,
            pool=self.pool,
            library=self.library,
            stream=self.stream,
            label=f"{self.label}, {label}",
            graph=graph,
            why_off="asked for without a graph",
        )

    def eager(self, body: Callable[[int], None] | None = None) -> None:
        """Enqueue one step launch by launch."""
        with self.pool.eager_pass(self.label):
            self.around(lambda: (body or self.body)(self.stream))

    def launches(self, graph: CapturedGraph | None) -> Kernels:
        """Run one eager step; returns its kernel launches.

        What a library launches is told by a graph of the same step. Without one, and in the body of
        a conditional, each of its calls whose kernels are not known counts once, under the name of
        the call.
        """
        journal = Journal("light")
        with open_window.LOCK, journal.watch():
            self.eager()
        found = Counter((launch.stage, launch.kernel) for launch in journal.launches)
        if graph is not None:
            found += library_kernels(graph)
        for call in journal.library:
            if graph is None or call.body:  # a graph has a body's nodes once, however often it ran
                count = 1 if call.kernels is None else call.kernels
                found[call.stage, f"{call.name} (library call)"] += count
        return found


def library_kernels(graph: CapturedGraph) -> Kernels:
    """Kernel nodes that calls of foreign libraries added, those in bodies of conditionals not."""
    contents = graph.contents
    foreign = (i for i, one in contents.origins.items() if isinstance(one, LibraryCall))
    return Counter((contents.origins[i].stage, contents.name(i)) for i in foreign)


def nodes(graph: CapturedGraph) -> Kernels:
    """All nodes of a graph, those in the bodies of its conditionals too: each once."""
    return Counter(
        (contents.origins[i].stage if i in contents.origins else "", contents.name(i))
        for contents in (graph.contents, *graph.contents.inside)
        for i in range(len(contents.nodes))
    )


def by_stage(kernels: Kernels, stages: Iterable[str] = ()) -> dict[str, int]:
    """Sum over the kernels of each stage; `stages` come first, and are there if they have none."""
    sums = dict.fromkeys(stages, 0)
    for (path, _), count in kernels.items():
        sums[path] = sums.get(path, 0) + count
    return sums
