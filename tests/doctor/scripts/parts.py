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


class RawAdd:
    """Launches `add` on y past lowgraph."""

    def __init__(self) -> None:
        self._values = ctypes.c_uint64(y.address), ctypes.c_float(1.0), ctypes.c_int(N)
        self._pointers = (ctypes.c_void_p * 3)(*map(ctypes.addressof, self._values))

    def words(self, on: int) -> tuple[Any, ...]:
        """What cuLaunchKernel is given."""
        sizes = (GRID, 1, 1, BLOCK, 1, 1, 0)
        return add.handle, *sizes, on, ctypes.addressof(self._pointers), 0

    def __call__(self, on: int) -> int:
        """Launch it; returns the code."""
        return raw("cuLaunchKernel", *self.words(on))


raw_add = RawAdd()


def raw(name: str, *args: Any) -> int:
    """Call the driver past lowgraph; returns the code."""
    return int(getattr(cu, name)(*args)[0])


def mode_of(name: str) -> Any:
    """A capture mode of the bindings."""
    return getattr(cu.CUstreamCaptureMode, f"CU_STREAM_CAPTURE_MODE_{name}")
