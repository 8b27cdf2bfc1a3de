"""Slices as arrays of other libraries: DLPack and the CUDA array interface. No copy, no wait.

What takes a slice over by DLPack holds its memory until it lets go: giving the slice back meanwhile
ends its name only. The CUDA array interface has no such call: its users keep the Slice object, and
who gives it back has to know that they are done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lowgraph.errors import PoolError
from lowgraph.memory.dlpack import capsule_of

if TYPE_CHECKING:
    from lowgraph.memory.pool import PersistentPool
    from lowgraph.memory.slices import Slice

__all__ = ["array_interface", "dlpack_capsule", "dlpack_device"]


def _pool_of(piece: Slice) -> PersistentPool:
    if piece.pool is None:
        raise PoolError(f"slice {piece.name!r} belongs to no pool, so no device can show it")
    return piece.pool


def dlpack_device(piece: Slice) -> tuple[int, int]:
    """DLPack's (type, id) of the device: CUDA on a GPU, the CPU on the host device."""
    return _pool_of(piece).device.dlpack_device


def dlpack_capsule(
    piece: Slice,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> object:
    """A capsule over the slice. Raises BufferError when another device or a copy is asked for."""
    pool, place = _pool_of(piece), dlpack_device(piece)
    if dl_device is not None and tuple(dl_device) != place:
        raise BufferError(f"slice {piece.name!r} is on DLPack device {place}, not on {dl_device}")
    if copy:
        raise BufferError(f"slice {piece.name!r} is shared, not copied: copy what you get")
    versioned = max_version is not None and max_version[0] >= 1
    address = piece.address
    pool.device.host_view(address, piece.nbytes)  # its user may write it: the check build is told
    end = pool.lend(piece)
    try:
        return capsule_of(address, piece.shape, piece.dtype, place, versioned=versioned, end=end)
    except BufferError:
        end()
        raise


def array_interface(piece: Slice) -> dict[str, Any]:
    """The CUDA array interface, version 3."""
    _pool_of(piece)
    return {
        "shape": piece.shape,
        "typestr": piece.dtype.str,
        "data": (piece.address if piece.nbytes else 0, False),
        "strides": None,
        "stream": None,
        "version": 3,
    }
