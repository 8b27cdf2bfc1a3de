"""What a step costs before any clock runs: nodes, launches, bytes named. Needs no GPU.

A step is recorded into a graph on the host device, with an empty node for each launch. Nothing is
compiled or run, and no memory of the pool is touched, so that the largest preset takes no longer
than the smallest. Counted by what launches are given, for either backend of the products: "kernel",
gemm.cu and what follows it, as on the host device; "cublas", the routes that a GPU takes, with each
call of the library as one launch called `product` (cuBLAS may launch a second kernel for one that
it splits).

    nodes     of the recorded graph
    launches  kernels, and `kernels`: how many of each
    bytes     for each launch the bytes of every tensor that it is given, once an argument: what it
              may read and write of the pool. What is given by its bare address (loss ring, staged
              batches, workspace of a split product) counts nothing. A table of which few rows are
              read counts whole, and what a kernel reads twice counts once.
    pool      bytes that the pool holds once the step was recorded, by the rules of a priming pass
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lowgraph import driver
from lowgraph.bench.config import checkout
from lowgraph.bench.data import dataset
from lowgraph.blas.backend import Product
from lowgraph.blas.epilogue import Epilogue
from lowgraph.blas.layers import Layers
from lowgraph.blas.routes import choose
from lowgraph.driver import Device
from lowgraph.hostdev import control
from lowgraph.kernels import Kernel, Library
from lowgraph.memory import PersistentPool, Slice
from lowgraph.memory.free_list import aligned
from lowgraph.models import find_preset
from lowgraph.train.parts import Parts
from lowgraph.train.plan import Plan, Schedule

__all__ = ["BACKENDS", "costs_of"]

BACKENDS = ("kernel", "cublas")

_ROOM = 32 << 30  # more than any preset holds; address space, of which next to nothing is touched


@dataclass
class Tally:
    """Launches and bytes so far; `on` while a step is recorded."""

    kernels: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    on: bool = False

    def add(self, name: str, args: tuple[Any, ...]) -> None:
        """Count a launch."""
        self.kernels[name] += 1
        self.bytes += sum(getattr(arg, "nbytes", 0) for arg in args if hasattr(arg, "address"))


class _Counted:
    """A kernel by its name: launches count while a step is recorded, and are empty nodes."""

    def __init__(self, name: str, node: Kernel, tally: Tally) -> None:
        self.name = name
        self._node = node
        self._tally = tally

    def allow_shared(self, nbytes: int) -> None:
        """An empty node wants none."""

    def __call__(self, stream: int, grid: Any, block: Any, *args: Any, shared: int = 0) -> None:
        if self._tally.on:
            self._tally.add(self.name, args)
            self._node(stream, 1, 1)


class _CountingLibrary(Library):
    """A library whose kernels count; it compiles none of them."""

    def __init__(self, *args: Any, tally: Tally, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tally = tally
        self.node = super().kernel(checkout() / "chain.cu", "nothing")

    def kernel(self, file: Any, name: str, defines: Any = None, **settings: Any) -> Any:
        """As `Library.kernel`, counted."""
        return _Counted(name, self.node, self.tally)


class _Products:
    """In the place of cuBLAS: a product with its epilogue is a launch, and an empty node."""

    title = "products that are counted"

    def __init__(self, library: _CountingLibrary) -> None:
        self._tally, self._node = library.tally, library.node

    def plan(
        self, product: Product, workspace_bytes: int, epilogue: Epilogue = Epilogue.NONE
    ) -> Product:
        return product

    def run(
        self, plan: Product, stream: int, workspace: Slice, out: Any, a: Any, b: Any,
        extras: tuple[Any, ...] = (), before: Any = None,
    ) -> None:  # fmt: skip
        if self._tally.on:
            self._tally.add("product", (out, a, b, *extras, before))
            self._node(stream, 1, 1)

    def describe(self, plan: Product) -> str:
        return self.title

    def drop(self, plan: Product) -> None:
        """It holds nothing."""

    def close(self) -> None:
        """It holds nothing."""


class _Region:
    """Upstream of a pool: one allocation, too large for the host device to fill it."""

    def __init__(self) -> None:
        self.address = self._next = driver.memory.alloc(_ROOM)

    def alloc(self, nbytes: int) -> int:
        found, self._next = self._next, self._next + aligned(nbytes)
        assert self._next <= self.address + _ROOM, "a preset outgrew _ROOM"
        return found

    def free(self, address: int) -> None:
        """With all the others."""


class _CountedParts(Parts):
    """Parts whose memory holds nothing."""

    def __init__(self, backend: str, tally: Tally, region: _Region, *given: Any) -> None:
        self._backend = backend
        self.library_class = partial(_CountingLibrary, tally=tally)
        # Poison would be written: to each slice as it is given back.
        self.pool_class = partial(PersistentPool, poison=False, upstream=region)
        super().__init__(*given, graph=False, ring_slots=4)

    def _open(self, device: Device, undo: ExitStack) -> None:
        super()._open(device, undo)
        if self._backend == "cublas":
            assert isinstance(self.library, _CountingLibrary)
            products, blas = _Products(self.library), self.blas
            blas.backend, blas._backend = self._backend, products
            blas._layers = Layers(products, self._backend, self.library, choose)

    def _fill(self, *given: Any) -> None:
        """Nobody reads the weights."""


def costs_of(
    device: Device, model: str, preset: str, precision: str, backend: str = "kernel"
) -> Mapping[str, Any]:
    """The costs of a training step, on the host device; see the module."""
    assert device.kind == "host", "a GPU has no memory that is not there"
    chosen = find_preset(model, preset)
    schedule = Schedule(steps=10, warmup=0, learning_rate=1e-3, batch=chosen.batch)
    plan = Plan(model, preset, chosen.model, schedule, 1, precision)
    tally = Tally()
    with _large_device(), _only_recorded("memset_d8_async", tally):
        region = _Region()
        try:
            parts = _CountedParts(backend, tally, region, device, plan, dataset(plan))
            try:
                return _recorded(parts, tally)
            finally:
                parts.close()
        finally:
            driver.memory.free(region.address)


@contextmanager
def _large_device() -> Iterator[None]:
    was = driver.memory.info()[1]
    control.set_memory(was + 2 * _ROOM)
    try:
        yield
    finally:
        control.set_memory(was)


@contextmanager
def _only_recorded(name: str, tally: Tally) -> Iterator[None]:
    """Leave a call of `driver.memory` out while nothing is recorded."""
    real: Callable[..., None] = getattr(driver.memory, name)
    setattr(driver.memory, name, lambda *given: real(*given) if tally.on else None)
    try:
        yield
    finally:
        setattr(driver.memory, name, real)


def _recorded(parts: Parts, tally: Tally) -> dict[str, Any]:
    stream = parts.stream
    # Relaxed, so that the pool may grow on the way, as in the priming pass of a step.
    with parts.pool.priming("counted step") as primed:
        driver.stream.begin_capture(stream, "relaxed")
        tally.on = True
        try:
            parts.body(stream)
        finally:
            tally.on = False
            graph = driver.stream.end_capture(stream)
    parts.pool.drop(primed)
    nodes = driver.graph.count_nodes(graph)
    driver.graph.destroy(graph)
    return {
        "nodes": nodes,
        "launches": tally.kernels.total(),
        "bytes": tally.bytes,
        "pool": parts.pool.stats().reserved,
        "kernels": dict(sorted(tally.kernels.items())),
    }
