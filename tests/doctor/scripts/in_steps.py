"""Steps of lowgraph's whose bodies call code that does not come through lowgraph."""

from __future__ import annotations

import ctypes

from cuda.bindings import driver as cu
from parts import BLOCK, GRID, N, add, raw_add, step, x

import lowgraph

libcuda = ctypes.CDLL("libcuda.so.1")
runs = {"slips": 0, "breaks": 0, "swallowed": 0, "raises": 0}


def slips(stream: int) -> None:
    """Work on the legacy stream, of which nobody is told."""
    add(stream, GRID, BLOCK, x, 1.0, N)
    with lowgraph.stage("callee"):
        cu.cuLaunchKernel(*raw_add.words(0))  # SLIPS


def breaks(stream: int) -> None:
    """A wait inside a C library."""
    add(stream, GRID, BLOCK, x, 1.0, N)
    with lowgraph.stage("callee"):
        libcuda.cuCtxSynchronize()  # BREAKS
    add(stream, GRID, BLOCK, x, 1.0, N)


def swallowed(stream: int) -> None:
    """The same past our gate, as the last call of the body, its error not looked at."""
    add(stream, GRID, BLOCK, x, 1.0, N)
    cu.cuCtxSynchronize()  # SWALLOWED


def raises(stream: int) -> None:
    """A callee that turns the driver's answer into an exception, which the body catches."""
    add(stream, GRID, BLOCK, x, 1.0, N)
    try:
        callee()
    except RuntimeError:
        add(stream, GRID, BLOCK, x, 1.0, N)


def callee() -> None:
    """Raises unless the device can be waited for."""
    if libcuda.cuCtxSynchronize():  # RAISES
        raise RuntimeError("no wait")


for body in (slips, breaks, swallowed, raises):

    def counted(stream: int, body=body) -> None:  # type: ignore[no-untyped-def]
        """The body, counted."""
        runs[body.__name__] += 1
        body(stream)

    with step(counted, body.__name__) as made:
        for _ in range(3):
            made()
        print(body.__name__, made.report().replays, "times", runs[body.__name__])
