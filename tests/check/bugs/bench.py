"""The bench of a scenario: kernels of a folder of sources, buffers, streams, recorded graphs.

Buffers carry no dtype, so that launches get plain addresses: a wrong width reaches the kernel, as
it does in most people's code. A new buffer is not written: reading it is a bug.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lowgraph import driver
from lowgraph.driver import Device
from lowgraph.kernels import Kernel, Library
from lowgraph.memory import PersistentPool, Slice
from tests.check.bugs.bug import Bug, original, write_changed

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Check:
    """A result and what it should be, in float64 or exact; tolerance: of the largest element."""

    what: str
    got: Array
    want: Array
    tolerance: float = 0.0

    @property
    def trouble(self) -> str:
        """What is wrong with the result, "" if nothing."""
        if self.got.shape != self.want.shape:
            return f"{self.what}: shape {self.got.shape}, not {self.want.shape}"
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(self.got.astype(np.float64) - self.want)
        fits = error <= self.tolerance * max(float(np.abs(self.want).max()), 1e-30)
        wrong = int((~fits).sum())
        return f"{self.what}: {wrong} of {fits.size} elements wrong" if wrong else ""


@dataclass(eq=False)
class Buffer:
    """Device memory of a scenario; its address stays what it was when the memory is given up."""

    address: int
    shape: tuple[int, ...]
    kind: np.dtype[Any]
    name: str
    slice: Slice | None = field(default=None, repr=False)

    @property
    def nbytes(self) -> int:
        """Exact size in bytes."""
        return math.prod(self.shape) * self.kind.itemsize


class Bench:
    """See the module.

    bug: whose changed source is used for its file; None: all sources as they are.
    separate: each buffer its own driver allocation of its exact size, not a slice of the pool.
    """

    def __init__(
        self, device: Device, library: Library, folder: Path, bug: Bug | None, separate: bool
    ) -> None:
        if bug is not None:
            write_changed(folder, bug)
        self.device, self.library = device, library
        self.folder, self.bug = folder, bug
        self.pool = None if separate else PersistentPool(device)
        self._streams: list[int] = [driver.stream.create()]
        self._events: list[int] = []
        self._graphs: list[tuple[int, int]] = []
        self._pinned: list[int] = []
        self._buffers: list[Buffer] = []

    @property
    def stream(self) -> int:
        """The main stream."""
        return self._streams[0]

    def kernel(self, file: str, name: str, **defines: int | str) -> Kernel:
        """A kernel, from the changed copy where `file` is the bug's."""
        if self.bug is not None and self.bug.file == file:
            source = self.folder / f"{self.bug.name}.cu"
        else:  # where it lies: an image of the check build is for one path, and cached for that
            source = original(file)
        return self.library.kernel(source, name, defines)

    # ---- memory ----

    def empty(
        self, shape: int | tuple[int, ...], dtype: Any = np.float32, name: str = ""
    ) -> Buffer:
        """A buffer that nobody has written."""
        sizes, kind = (shape,) if isinstance(shape, int) else shape, np.dtype(dtype)
        label = name or f"buffer {len(self._buffers)}"
        if self.pool is not None:
            piece = self.pool.take(label, sizes, kind)
            buffer = Buffer(piece.address, sizes, kind, label, piece)
        else:
            nbytes = math.prod(sizes) * kind.itemsize
            held = max(1, nbytes)  # a driver refuses to give nothing
            buffer = Buffer(driver.memory.alloc(held), sizes, kind, label)
            self.device.annotate(buffer.address, held, "live", label)
        self._buffers.append(buffer)
        return buffer

    def put(self, array: Any, name: str = "") -> Buffer:
        """A buffer with a copy of the array."""
        source = np.array(array, order="C")
        buffer = self.empty(source.shape, source.dtype, name)
        self.write(buffer, source)
        return buffer

    def write(self, buffer: Buffer, source: Array) -> None:
        """Copy an array of the buffer's size into it, and wait."""
        driver.memory.copy_htod_async(
            buffer.address, source.ctypes.data, buffer.nbytes, self.stream
        )
        self.sync()

    def get(self, buffer: Buffer) -> Array:
        """What is in it after all work so far."""
        self.sync()
        array = np.empty(buffer.shape, buffer.kind)
        driver.memory.copy_dtoh_async(array.ctypes.data, buffer.address, array.nbytes, self.stream)
        self.sync()
        return array

    def drop(self, buffer: Buffer) -> None:
        """Give the memory up; the buffer's address is stale from now on."""
        self._buffers.remove(buffer)
        if self.pool is not None and buffer.slice is not None:
            self.pool.give_back(buffer.slice)
        else:
            self.device.annotate(buffer.address, buffer.nbytes, "gone", buffer.name)
            driver.memory.free(buffer.address)

    def pinned(self, shape: int | tuple[int, ...], dtype: Any) -> tuple[Array, int]:
        """Mapped pinned memory: an array over it, and its device address."""
        sizes, kind = (shape,) if isinstance(shape, int) else shape, np.dtype(dtype)
        nbytes = math.prod(sizes) * kind.itemsize
        pointer = driver.memory.host_alloc(nbytes)
        self._pinned.append(pointer)
        raw = (ctypes.c_ubyte * nbytes).from_address(pointer)
        array = np.frombuffer(raw, kind).reshape(sizes)
        return array, driver.memory.host_device_pointer(pointer)

    # ---- streams and graphs ----

    def new_stream(self) -> int:
        """Another non-blocking stream."""
        self._streams.append(driver.stream.create())
        return self._streams[-1]

    def order(self, after: int, before: int) -> None:
        """Make stream `after` wait for what stream `before` was given so far."""
        driver.stream.wait_event(after, self.mark(before))

    def mark(self, stream: int) -> int:
        """An event recorded on the stream now."""
        self._events.append(driver.event.create())
        driver.event.record(self._events[-1], stream)
        return self._events[-1]

    def record(self, send: Callable[[], None]) -> int:
        """What `send` enqueues on the main stream, as an executable graph."""
        driver.stream.begin_capture(self.stream)
        try:
            send()
        finally:
            graph = driver.stream.end_capture(self.stream)
        self._graphs.append((graph, driver.graph.instantiate(graph)))
        return self._graphs[-1][1]

    def replay(self, executable: int, stream: int | None = None) -> None:
        """Launch a recorded graph."""
        driver.graph.launch(executable, self.stream if stream is None else stream)

    def sync(self) -> None:
        """Wait for all streams of the bench, and for the legacy stream."""
        for stream in [*self._streams, 0]:
            driver.stream.synchronize(stream)

    def close(self) -> None:
        """Free all of it. Not after a fault: the context is lost then."""
        self.sync()
        for graph, executable in self._graphs:
            driver.graph.exec_destroy(executable)
            driver.graph.destroy(graph)
        for buffer in list(self._buffers):
            self.drop(buffer)
        if self.pool is not None:
            self.pool.close()
        for pointer in self._pinned:
            driver.memory.host_free(pointer)
        for event in self._events:
            driver.event.destroy(event)
        for stream in self._streams:
            driver.stream.destroy(stream)
