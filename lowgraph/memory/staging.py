"""Pinned host memory with fixed addresses: named slots, and a ring for one-off transfers.

A copy recorded in a window reads its host address again at every replay, so a slot neither moves
nor is rewritten while work that may read it is in flight: `write` waits for that first.
"""

from __future__ import annotations

import ctypes
import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lowgraph import driver
from lowgraph.errors import CaptureRefused, PoolError
from lowgraph.memory import open_window
from lowgraph.memory.stats import readable
from lowgraph.memory.teardown import do_all

if TYPE_CHECKING:
    from lowgraph.memory.slices import Slice

__all__ = ["Staging", "StagingSlot", "download", "fill_zero", "upload"]

_CHUNK = 1 << 20  # bytes of one ring slot: a copy from pinned memory is at full speed from there on


class StagingSlot:
    """Pinned, mapped host memory of one shape: `array` is the host's view of it.

    Attributes: name, shape, dtype, nbytes; address (the host's), device_address (the device's, for
    kernels that read or write it directly, such as a ring of losses).
    """

    def __init__(self, name: str, shape: tuple[int, ...], dtype: Any = np.float32) -> None:
        self.name = name
        self.shape = tuple(shape)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.nbytes = max(1, math.prod(self.shape) * self.dtype.itemsize)
        self._pointer: int | None = driver.memory.host_alloc(self.nbytes)
        self._stream: int | None = None
        self._array: np.ndarray[Any, Any] | None = None
        self.device_address = driver.memory.host_device_pointer(self._pointer)

    @property
    def address(self) -> int:
        """The host address. Raises PoolError once closed."""
        if self._pointer is None:
            raise PoolError(f"staging slot {self.name!r} is closed")
        return self._pointer

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The memory itself as a NumPy array; a device may be writing or reading it."""
        if self._array is None or self._pointer is None:
            memory = (ctypes.c_ubyte * self.nbytes).from_address(self.address)
            count = math.prod(self.shape)
            self._array = np.frombuffer(memory, self.dtype, count).reshape(self.shape)
        return self._array

    def write(self, values: Any) -> None:
        """Copy `values` (broadcast to the slot's shape) in, once no copy out of it is in flight.

        Refused in a window, where nothing runs and a replay would read what is here by then.
        """
        _refuse_in_window(f"staging slot {self.name!r} was written")
        self._wait()
        self.array[...] = values

    def copy_to(self, piece: Slice, stream: int) -> None:
        """Enqueue the copy to a slice of the same bytes; in a window it is part of each replay."""
        if piece.nbytes != self.nbytes:
            raise PoolError(
                f"staging slot {self.name!r} has {readable(self.nbytes)}, "
                f"slice {piece.name!r} {readable(piece.nbytes)}"
            )
        driver.memory.copy_htod_async(piece.address, self.address, self.nbytes, stream)
        self._stream = stream

    def close(self) -> None:
        """Free the memory once idle. Idempotent; arrays taken from it must not be used again."""
        if self._pointer is None:
            return
        pointer, self._pointer, self._array = self._pointer, None, None
        do_all((self._wait, partial(driver.memory.host_free, pointer)))

    def _wait(self) -> None:
        # Replays run on the stream that recorded the copy, so its idleness covers them too.
        if self._stream is not None and not driver.stream.is_done(self._stream):
            driver.stream.synchronize(self._stream)


class _RingSlot:
    """One half of the transfer ring: pinned bytes, and the event behind their last copy."""

    def __init__(self, name: str) -> None:
        self.slot = StagingSlot(name, (_CHUNK,), np.uint8)
        self.event = driver.event.create()

    def close(self) -> None:
        acts = (driver.event.synchronize, driver.event.destroy)
        do_all((*(partial(act, self.event) for act in acts), self.slot.close))


class Staging:
    """A pool's pinned memory: named slots, and two ring slots that transfers alternate over."""

    def __init__(self) -> None:
        self._slots: dict[str, StagingSlot] = {}
        self._ring: list[_RingSlot] = []

    def slot(self, name: str, shape: tuple[int, ...], dtype: Any = np.float32) -> StagingSlot:
        """Make a named slot. Raises PoolError when the name is taken."""
        if name in self._slots:
            raise PoolError(f"there is a staging slot {name!r} already")
        made = self._slots[name] = StagingSlot(name, shape, dtype)
        return made

    @property
    def nbytes(self) -> int:
        """Pinned bytes held."""
        return sum(slot.nbytes for slot in self._slots.values()) + _CHUNK * len(self._ring)

    def named(self) -> list[tuple[str, int, int]]:
        """Name, device address and bytes of each named slot."""
        return [(name, s.device_address, s.nbytes) for name, s in self._slots.items()]

    def covers(self, address: int) -> bool:
        """Whether a device address lies in a named slot."""
        return any(
            slot.device_address <= address < slot.device_address + slot.nbytes
            for slot in self._slots.values()
        )

    def ring(self) -> list[_RingSlot]:
        """The two transfer slots, made on first use."""
        while len(self._ring) < 2:
            self._ring.append(_RingSlot(f"transfer {len(self._ring)}"))
        return self._ring

    def close(self) -> None:
        """Free everything once idle. Idempotent."""
        closing: list[_RingSlot | StagingSlot] = [*self._ring, *self._slots.values()]
        self._ring.clear()
        self._slots.clear()
        do_all(part.close for part in closing)


def upload(piece: Slice, values: Any, stream: int) -> None:
    """Copy host values of the slice's shape into it through pinned memory, in stream order.

    Returns before the device has them; `values` may change at once. Values of another dtype are
    converted if NumPy calls that safe ("same_kind"); another shape is refused.
    """
    _refuse_in_window(f"slice {piece.name!r} was uploaded to")
    given = np.asarray(values)
    if given.shape != piece.shape:
        raise PoolError(
            f"slice {piece.name!r} has shape {piece.shape}, the values {given.shape}: give as many "
            f"with .reshape({piece.shape}), or take a slice of their shape"
        )
    if not np.can_cast(given.dtype, piece.dtype, "same_kind"):
        raise PoolError(
            f"slice {piece.name!r} holds {piece.dtype}, the values {given.dtype}: convert them "
            f"with .astype(np.{piece.dtype.type.__name__})"
        )
    raw = np.ascontiguousarray(given, piece.dtype).reshape(-1).view(np.uint8)
    for start, half in _chunks(piece):
        part = raw[start : start + _CHUNK]
        driver.event.synchronize(half.event)
        half.slot.array[: part.size] = part
        driver.memory.copy_htod_async(piece.address + start, half.slot.address, part.size, stream)
        driver.event.record(half.event, stream)


def download(piece: Slice, stream: int) -> np.ndarray[Any, Any]:
    """The slice's values behind the stream's work so far, as a new array. Waits for that work."""
    out = np.empty(piece.shape, piece.dtype)
    raw = out.reshape(-1).view(np.uint8)
    pending: list[tuple[int, Any]] = []
    for start, half in _chunks(piece):
        if len(pending) == 2:
            _collect(raw, *pending.pop(0))
        size = min(_CHUNK, piece.nbytes - start)
        driver.memory.copy_dtoh_async(half.slot.address, piece.address + start, size, stream)
        driver.event.record(half.event, stream)
        pending.append((start, half))
    for start, half in pending:
        _collect(raw, start, half)
    return out


def fill_zero(piece: Slice, stream: int) -> None:
    """Enqueue zeros over the slice's bytes; in a window a memset node."""
    if piece.nbytes:
        driver.memory.memset_d8_async(piece.address, 0, piece.nbytes, stream)


def _chunks(piece: Slice) -> list[tuple[int, _RingSlot]]:
    if piece.pool is None:
        raise PoolError(f"slice {piece.name!r} belongs to no pool, so it has no staging memory")
    ring = piece.pool.staging.ring()
    return [(start, ring[n % 2]) for n, start in enumerate(range(0, piece.nbytes, _CHUNK))]


def _collect(raw: np.ndarray[Any, Any], start: int, half: _RingSlot) -> None:
    driver.event.synchronize(half.event)
    part = raw[start : start + _CHUNK]
    part[...] = half.slot.array[: part.size]


def _refuse_in_window(what: str) -> None:
    window = open_window.mine()
    if window is not None:
        reason = f"{what} in the capture window of {window.label!r}, where nothing runs"
        remedy = "move it before the step, outside the body"
        raise open_window.refused(CaptureRefused(reason, open_window.requester(), remedy))
