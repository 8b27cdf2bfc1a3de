"""Steps of lowgraph's whose bodies call code that does not come through lowgraph."""

from __future__ import annotations

import ctypes
import sys

from parts import BLOCK, GRID, N, add, raw, raw_add, step, x

import lowgraph

libcuda = ctypes.CDLL("libcuda.so.1")


def slips(stream: int) -> None:
    """Work on the legacy stream, of which nobody is told."""
    add(stream, GRID, BLOCK, x, 1.0, N)
    with lowgraph.stage("callee"):
        raw_add(0)  # SLIPS


def breaks(stream: int) -> None:
    """A wait inside a C library."""
    add(stream, GRID, BLOCK, x, 1.0, N)
    with lowgraph.stage("callee"):
        before = 1
        libcuda.cuCtxSynchronize()  # BREAKS
        after = 2
    add(stream, GRID, BLOCK, x, float(after - before), N)


def swallowed(stream: int) -> None:
    """The same past our gate, as the last call of the body, its error not looked at."""
    add(stream, GRID, BLOCK, x, 1.0, N)
    raw("cuCtxSynchronize")  # SWALLOWED


for body in (slips, breaks, swallowed):
    if len(sys.argv) < 3 or body.__name__ in sys.argv[2:]:
        with step(body, body.__name__) as made:
            for _ in range(3):
                made()
