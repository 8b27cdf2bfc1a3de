"""What the scripts here are made of: a device, a pool, a stream, a kernel that adds, raw calls."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver as cu

from lowgraph import GraphStep, Library, PersistentPool, open_device
from lowgraph.driver import stream as streams
from lowgraph.memory import upload

N, GRID, BLOCK = 300, 3, 128

device = open_device(sys.argv[1] if len(sys.argv) > 1 else "host")
library, pool, stream = Library(device), PersistentPool(device), streams.create()
source = Path(__file__).parents[2] / "capture" / "update.cu"
add = library.kernel(source, "add")
x, y = pool.take("x", N), pool.take("y", N)
for piece in (x, y):
    upload(piece, np.ones(N, np.float32), stream)
streams.synchronize(stream)


def step(body: Callable[[int], None], label: str, **options: Any) -> GraphStep:
    """A step over the body, which says nothing."""
    return GraphStep(
        body, device=device, pool=pool, library=library, stream=stream, label=label,
        say=lambda text: None, **options,
    )  # fmt: skip


def raw(name: str, *args: Any) -> int:
    """Call the driver past lowgraph; returns the code."""
    return int(getattr(cu, name)(*args)[0])


def raw_add(on: int) -> int:
    """Launch `add` on y past lowgraph; returns the code."""
    values = ctypes.c_uint64(y.address), ctypes.c_float(1.0), ctypes.c_int(N)
    pointers = (ctypes.c_void_p * 3)(*map(ctypes.addressof, values))
    grid, block = (GRID, 1, 1), (BLOCK, 1, 1)
    return raw("cuLaunchKernel", add.handle, *grid, *block, 0, on, ctypes.addressof(pointers), 0)


def begin(mode: str = "THREAD_LOCAL") -> None:
    """Begin a capture past lowgraph."""
    named = getattr(cu.CUstreamCaptureMode, f"CU_STREAM_CAPTURE_MODE_{mode}")
    assert raw("cuStreamBeginCapture", stream, named) == 0


def end() -> int:
    """End it; returns the code."""
    return raw("cuStreamEndCapture", stream)
