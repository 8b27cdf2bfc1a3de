"""What a step costs before any clock runs: nodes, launches, bytes named. Needs no GPU.

A step is recorded into a graph and not run, so that a large preset takes a second or two. Counted
on the host device, where products are kernels of ours like all others, by what launches are given:

    nodes     of the recorded graph
    launches  kernels, and `kernels`: how many of each
    bytes     for each launch the bytes of every tensor that it is given, once an argument: what it
              may read and write of the pool. What is given by its bare address (loss ring, staged
              batches, workspace of a split product) counts nothing. A table of which few rows are
              read counts whole, and what a kernel reads twice counts once.
    pool      bytes that the pool holds once the step was recorded
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lowgraph import driver
from lowgraph.bench.data import dataset
from lowgraph.driver import Device
from lowgraph.kernels import Kernel, Library
from lowgraph.models import find_preset
from lowgraph.train.parts import Parts
from lowgraph.train.plan import Plan, Schedule

__all__ = ["costs_of"]


@dataclass
class Tally:
    """Launches and bytes so far; `on` while a step is recorded."""

    kernels: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    on: bool = False

    def add(self, name: str, args: tuple[Any, ...]) -> None:
        """Count a launch."""
        if self.on:
            self.kernels[name] += 1
            self.bytes += sum(getattr(arg, "nbytes", 0) for arg in args if hasattr(arg, "address"))


class _Counted:
    """A kernel that counts its launches."""

    def __init__(self, kernel: Kernel, tally: Tally) -> None:
        self._kernel = kernel
        self._tally = tally

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

    def __call__(self, stream: int, grid: Any, block: Any, *args: Any, shared: int = 0) -> None:
        self._tally.add(self._kernel.name, args)
        self._kernel(stream, grid, block, *args, shared=shared)


class _CountingLibrary(Library):
    """A library whose kernels count."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tally = Tally()

    def kernel(self, *args: Any, **kwargs: Any) -> Any:
        """As `Library.kernel`, counted."""
        return _Counted(super().kernel(*args, **kwargs), self.tally)


class _CountedParts(Parts):
    library_class = _CountingLibrary


def costs_of(device: Device, model: str, preset: str, precision: str) -> Mapping[str, Any]:
    """The costs of a training step of that model, preset and precision; see the module."""
    chosen = find_preset(model, preset)
    schedule = Schedule(steps=10, warmup=0, learning_rate=1e-3, batch=chosen.batch)
    plan = Plan(model, preset, chosen.model, schedule, 1, precision)
    parts = _CountedParts(device, plan, dataset(plan), graph=False, ring_slots=4)
    try:
        return _recorded(parts)
    finally:
        parts.close()


def _recorded(parts: Parts) -> dict[str, Any]:
    library = parts.library
    assert isinstance(library, _CountingLibrary)
    stream, tally = parts.stream, library.tally
    # Relaxed, so that the pool may grow on the way: nothing runs, so nothing was primed.
    with parts.pool.eager_pass("counted step"):
        driver.stream.begin_capture(stream, "relaxed")
        tally.on = True
        try:
            parts.body(stream)
        finally:
            tally.on = False
            graph = driver.stream.end_capture(stream)
    nodes = driver.graph.count_nodes(graph)
    driver.graph.destroy(graph)
    return {
        "nodes": nodes,
        "launches": tally.kernels.total(),
        "bytes": tally.bytes,
        "pool": parts.pool.stats().reserved,
        "kernels": dict(sorted(tally.kernels.items())),
    }
