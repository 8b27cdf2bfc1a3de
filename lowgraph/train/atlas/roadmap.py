"""The merge roadmap: small kernels of one stage that follow each other in the graph.

Small is a kernel whose threads all fit on the device at once: it ends before it has filled it, and
its launch is a large part of its time. Neighbours are nodes of which the second waits for the first
alone, and nobody else waits for the first. Whether two of them *can* be merged (the second may need
all of what the first wrote) is for their author to judge: the roadmap says where to look first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from lowgraph.capture import CapturedGraph
from lowgraph.driver.graph import KernelParams

__all__ = ["Link", "Merge", "links_of", "merges"]

RESIDENT = 2048  # threads of a multiprocessor of sm_80 and sm_90; 1536 on sm_86 and sm_89


@dataclass(frozen=True)
class Link:
    """A node of the graph in order of recording: threads of all its blocks, 0 for no kernel.

    follows: it waits for the node before it alone, which nobody else waits for.
    """

    stage: str
    name: str
    threads: int
    follows: bool


@dataclass(frozen=True)
class Merge:
    """Kernels that follow each other, in order, and how often a step has them so.

    What one run repeats, as a loop over layers does, is counted by its repetitions.
    saved: nodes that a step would lose if each occurrence became one kernel.
    """

    stage: str
    kernels: tuple[str, ...]
    times: int

    @property
    def saved(self) -> int:
        """Nodes fewer in a step."""
        return self.times * (len(self.kernels) - 1)


def links_of(graph: CapturedGraph) -> list[Link]:
    """The graph's nodes."""
    contents = graph.contents
    waiting = Counter(before for waits in contents.waits for before in waits)
    links = []
    for index in range(len(contents.nodes)):
        record = contents.record(index)
        params = record.params
        threads = prod((*params.grid, *params.block)) if isinstance(params, KernelParams) else 0
        follows = contents.waits[index] == (index - 1,) and waiting[index - 1] == 1
        links.append(Link(record.stage, record.name, threads, follows))
    return links


def merges(links: Iterable[Link], multiprocessors: int) -> list[Merge]:
    """Runs of at least two small neighbours of a stage, the most nodes saved first."""
    most = multiprocessors * RESIDENT
    found: Counter[tuple[str, tuple[str, ...]]] = Counter()
    run: list[Link] = []
    for link in links:
        small = 0 < link.threads <= most
        if not (run and small and link.follows and link.stage == run[-1].stage):
            _note(found, run)
            run = []
        if small:
            run.append(link)
    _note(found, run)
    ranked = [Merge(stage, kernels, times) for (stage, kernels), times in found.items()]
    return sorted(ranked, key=lambda merge: (-merge.saved, merge.stage, merge.kernels))


def _note(found: Counter[tuple[str, tuple[str, ...]]], run: Sequence[Link]) -> None:
    if len(run) > 1:
        names = [link.name for link in run]
        period = _period(names)
        found[run[0].stage, tuple(names[:period])] += len(names) // period


def _period(names: Sequence[str]) -> int:
    """The shortest part, of two names at least, that the whole repeats; else all of it."""
    size = len(names)
    lengths = (part for part in range(2, size) if size % part == 0)
    return next((n for n in lengths if list(names[:n]) * (size // n) == list(names)), size)
