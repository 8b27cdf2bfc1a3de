"""Counts of driver calls by kind, in nested scopes.

    with counters.scope() as counts:
        step()
    counts.launches, counts.allocations, counts.syncs

The gate of the driver layer reports each call that returned success; scopes nest, and a call counts
in every open scope of the process, whichever thread made it, but for scopes that are of one thread
alone (`scope(own=True)`). With no scope open nothing is counted and nothing is paid for. These are
the calls that lowgraph made; what other libraries sent to the driver is counted below us, by the
host device.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["Counts", "active", "note", "scope"]


@dataclass
class Counts:
    """Successful driver calls inside one scope. All fields are numbers of calls."""

    launches: int = 0
    graph_launches: int = 0
    copies: int = 0
    fills: int = 0
    allocations: int = 0
    frees: int = 0
    syncs: int = 0
    queries: int = 0
    module_loads: int = 0
    by_name: dict[str, int] = field(default_factory=dict)


_KINDS = {
    "cuLaunchKernelEx": "launches",
    "cuGraphLaunch": "graph_launches",
    "cuMemcpyHtoDAsync": "copies",
    "cuMemcpyDtoHAsync": "copies",
    "cuMemcpyDtoDAsync": "copies",
    "cuMemsetD8Async": "fills",
    "cuMemsetD32Async": "fills",
    "cuMemAlloc": "allocations",
    "cuMemHostAlloc": "allocations",
    "cuMemFree": "frees",
    "cuMemFreeHost": "frees",
    "cuStreamSynchronize": "syncs",
    "cuEventSynchronize": "syncs",
    "cuCtxSynchronize": "syncs",
    "cuStreamQuery": "queries",
    "cuEventQuery": "queries",
    "cuModuleLoadData": "module_loads",
}

# Open scopes, outermost first, each with the one thread that it is of, 0 for all; the gate looks at
# this list's truth on every call.
active: list[tuple[int, Counts]] = []
_lock = threading.RLock()  # of their figures: two threads that add at once would lose one


def note(call: str) -> None:
    """Count one successful driver call in every open scope."""
    kind, thread = _KINDS.get(call), threading.get_ident()
    with _lock:
        for owner, counts in active:
            if owner not in (0, thread):
                continue
            counts.by_name[call] = counts.by_name.get(call, 0) + 1
            if kind is not None:
                setattr(counts, kind, getattr(counts, kind) + 1)


@contextmanager
def scope(own: bool = False) -> Iterator[Counts]:
    """Open a scope, own: of the calling thread alone; its counts stay readable after it closes."""
    counts = Counts()
    with _lock:
        active.append((threading.get_ident() if own else 0, counts))
    try:
        yield counts
    finally:
        with _lock:
            # By identity: two scopes with equal counts compare equal.
            active[:] = [each for each in active if each[1] is not counts]
