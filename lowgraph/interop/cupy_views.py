"""CuPy arrays over slices of the pool, and slices over arrays that lie in it: no copy, no wait."""

from __future__ import annotations

from typing import Any

from lowgraph.capture.pinned_memory import describe
from lowgraph.errors import ConfigError
from lowgraph.interop import cupy_library
from lowgraph.memory import PersistentPool, Slice, register_view

__all__ = ["cupy_view", "memory_pointer", "slice_of"]


def cupy_view(piece: Slice) -> Any:
    """A CuPy array over a slice's memory: no copy, no wait; it keeps the Slice object alive.

    The memory stays the pool's: a view used after the slice was given back reads somebody else's
    bytes. Raises ConfigError when CuPy is not installed or the device is not a GPU.
    """
    if piece.pool is None or not piece.pool.device.spec.startswith("cuda:"):
        raise ConfigError(f"no CuPy view of {piece!r}: it is not on a GPU")
    cupy = cupy_library.load(
        "an array over device memory (lowgraph.memory.download() copies to NumPy without it)"
    )
    return cupy.ndarray(piece.shape, piece.dtype, memory_pointer(cupy, piece, piece))


def memory_pointer(cupy: Any, piece: Slice, owner: object) -> Any:
    """A slice as CuPy's MemoryPointer, which keeps `owner` alive.

    The device is named: CuPy would ask the driver for it.
    """
    assert piece.pool is not None, "a slice of a pool"
    ordinal = piece.pool.device.ordinal
    memory = cupy.cuda.UnownedMemory(piece.address, max(piece.nbytes, 1), owner, ordinal)
    return cupy.cuda.MemoryPointer(memory, 0)


def slice_of(array: Any, pool: PersistentPool) -> Slice:
    """The part of the pool that an array of another library lies in, of its shape and dtype.

    array: row-major, with DLPack or `__cuda_array_interface__`: of CuPy over a slice or made in
    `cupy_ops`, of PyTorch by from_dlpack. The slice lives as long as what it is a part of; the
    array does not have to. Raises ConfigError for an array that does not lie in one slice of
    `pool`.
    """
    place = describe(array, "array")
    root = pool.who_owns(place.address)
    if root is None or not root.alive or place.address + place.nbytes > root.address + root.nbytes:
        raise ConfigError(
            f"{place} lies in no slice of this pool: declare it as an Input, or use "
            "interop.foreign_memory(array)"
        )
    return Slice(
        place.address,
        root.name,
        place.shape,
        place.dtype,
        pool=pool,
        id=root.id,
        generation=root.generation,
        root=root,
    )


register_view(cupy_view)
