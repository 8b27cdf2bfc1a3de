"""Counts of driver calls by kind, in nested scopes.

    with counters.scope() as counts:
        step()
    counts.launches, counts.allocations, counts.syncs

The gate of the driver layer reports each call that returned success; scopes nest, and a call counts
in every open scope of the process, whichever thread made it. With no scope open nothing is counted
and nothing is paid for. These are the calls that lowgraph made; what other libraries sent to the
driver is counted below us, by the host device.
"""

from __future__ import annotations

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

# Open scopes, outermost first; the gate looks at this list's truth on every call.
active: list[Counts] = []


def note(call: str) -> None:
    """Count one successful driver call in every open scope."""
    kind = _KINDS.get(call)
    for counts in active:
        counts.by_name[call] = counts.by_name.get(call, 0) + 1
        if kind is not None:
            setattr(counts, kind, getattr(counts, kind) + 1)


@contextmanager
def scope() -> Iterator[Counts]:
    """Open a scope; its counts stay readable after it closes."""
    counts = Counts()
    active.append(counts)
    try:
        yield counts
    finally:
        # By identity: two scopes with equal counts compare equal.
        active[:] = [other for other in active if other is not counts]
