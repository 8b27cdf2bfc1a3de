"""CuPy arrays over slices of the pool; the only module that imports CuPy.

CuPy is imported on first use, so a run on the host device never needs it.
"""

from __future__ import annotations

import importlib
from typing import Any

from lowgraph import driver
from lowgraph.errors import ConfigError
from lowgraph.memory import Slice, register_view

__all__ = ["cupy_view"]


def cupy_view(piece: Slice) -> Any:
    """A CuPy array over a slice's memory: no copy, no wait; it keeps the Slice object alive.

    The memory stays the pool's: a view used after the slice was given back reads somebody else's
    bytes. Raises ConfigError when CuPy is not installed or the device is not a GPU.
    """
    if piece.pool is None or not piece.pool.device.spec.startswith("cuda:"):
        raise ConfigError(f"no CuPy view of {piece!r}: it is not on a GPU")
    cupy = _cupy()
    ordinal = int(piece.pool.device.spec.partition(":")[2])
    memory = cupy.cuda.UnownedMemory(piece.address, max(piece.nbytes, 1), piece, ordinal)
    return cupy.ndarray(piece.shape, piece.dtype, cupy.cuda.MemoryPointer(memory, 0))


def _cupy() -> Any:
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        raise ConfigError(
            f"arrays over device memory need CuPy ({error}): "
            f"pip install 'lowgraph[cuda{driver.compat.BINDINGS_MAJOR}]'; "
            "lowgraph.memory.download() copies to NumPy without it"
        ) from error


register_view(cupy_view)
