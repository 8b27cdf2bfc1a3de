"""The rig: what a device test needs, on either device, with everything freed at the test's end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowgraph.driver import Device, gate, memory, stream
from lowgraph.kernels import Library
from lowgraph.kernels import launch as kernel_launch


@dataclass(frozen=True)
class Buffer:
    """Device memory with the attributes of a pool slice that kernels look at. nbytes in bytes."""

    address: int
    nbytes: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    name: str


class Rig:
    """A device, a non-blocking stream, a kernel library, and buffers.

    device, stream (a handle), library: as the fixtures made them.
    """

    def __init__(self, device: Device, library: Library) -> None:
        self.device = device
        self.library = library
        self.stream = stream.create()
        self._buffers: list[Buffer] = []

    def put(self, array: Any, name: str = "x") -> Buffer:
        """Return a buffer holding a copy of the array (converted by np.asarray)."""
        source = np.array(array, order="C")
        buffer = self._take(source.shape, source.dtype, name)
        if buffer.nbytes:
            memory.copy_htod_async(buffer.address, source.ctypes.data, source.nbytes, self.stream)
            self.sync()  # the copy reads `source` until it is done
        return buffer

    def empty(
        self, shape: int | Sequence[int], dtype: Any = np.float32, name: str = "out"
    ) -> Buffer:
        """Return a buffer of 0xFF bytes, NaN or -1, so that what is not written shows."""
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        buffer = self._take(sizes, np.dtype(dtype), name)
        if buffer.nbytes:
            memory.memset_d8_async(buffer.address, 0xFF, buffer.nbytes, self.stream)
            self.sync()  # another stream of the test may write it next
        return buffer

    def get(self, buffer: Any) -> np.ndarray[Any, Any]:
        """Return the contents after all work of the rig's stream, as a new array."""
        array = np.empty(buffer.shape, buffer.dtype)
        if array.nbytes:
            memory.copy_dtoh_async(array.ctypes.data, buffer.address, array.nbytes, self.stream)
        self.sync()
        return array

    def sync(self) -> None:
        """Wait for the rig's stream."""
        stream.synchronize(self.stream)

    def close(self) -> None:
        """Free all buffers and the stream; fail if the test left a hook or a seal behind."""
        hooks = (gate.guard, gate.observer, kernel_launch.observer, self.library.sealed)
        gate.guard = gate.observer = kernel_launch.observer = None
        self.library.sealed = None
        try:
            self.sync()
        finally:
            self._free_all()
            stream.destroy(self.stream)
        assert hooks == (None,) * len(hooks), f"the test left hooks behind: {hooks}"

    def _take(self, shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> Buffer:
        nbytes = math.prod(shape) * dtype.itemsize
        # The driver refuses an allocation of nothing.
        buffer = Buffer(memory.alloc(max(nbytes, 1)), nbytes, dtype, shape, name)
        self._buffers.append(buffer)
        self.device.annotate(buffer.address, max(nbytes, 1), "live", name)
        return buffer

    def _free_all(self) -> None:
        while self._buffers:
            buffer = self._buffers.pop()
            self.device.annotate(buffer.address, max(buffer.nbytes, 1), "gone", buffer.name)
            memory.free(buffer.address)
