"""Device and pinned host memory, copies and fills: one driver call a function, async forms only.

The synchronous copies and fills are left out on purpose: beside a capture they run at once on the
legacy stream and are not recorded, without an error. Addresses and sizes are integers (bytes); a
size that is none is a ConfigError, where the bindings would take its whole part.
"""

from __future__ import annotations

from dataclasses import dataclass

from cuda.bindings import driver

from lowgraph.driver import context, gate
from lowgraph.integers import integer

# Every context sees the memory, and the device can address it: what a ring that the device writes
# and the host reads needs.
_HOST_FLAGS = driver.CU_MEMHOSTALLOC_PORTABLE | driver.CU_MEMHOSTALLOC_DEVICEMAP
_MEMORY_TYPE = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
_RANGE_START = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR
_RANGE_SIZE = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_RANGE_SIZE
_BUFFER_ID = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_BUFFER_ID
_INVALID_VALUE = 1
_MOST = 2**64 - 1  # of a size_t

_pinned: dict[int, int] = {}  # address -> bytes of what host_alloc gave out


def alloc(nbytes: int) -> int:
    """Allocate device memory (cuMemAlloc); return its address.

    Raises OutOfMemory with `nbytes`, WrongContext.
    """
    context.require("cuMemAlloc")
    nbytes = _number("cuMemAlloc: nbytes", nbytes)
    return int(gate.call(driver.cuMemAlloc, nbytes, nbytes=nbytes))


def free(address: int) -> None:
    """Free device memory (cuMemFree). It waits for work in flight."""
    with gate.teardown_lock:
        gate.call(driver.cuMemFree, address)


def host_alloc(nbytes: int) -> int:
    """Allocate pinned, portable, mapped memory (cuMemHostAlloc); return its host address."""
    nbytes = _number("cuMemHostAlloc: nbytes", nbytes)
    pointer = int(gate.call(driver.cuMemHostAlloc, nbytes, _HOST_FLAGS, nbytes=nbytes))
    _pinned[pointer] = nbytes
    return pointer


def host_free(pointer: int) -> None:
    """Free memory of `host_alloc` (cuMemFreeHost)."""
    with gate.teardown_lock:
        gate.call(driver.cuMemFreeHost, pointer)
        _pinned.pop(pointer, None)


def is_pinned_here(pointer: int, nbytes: int) -> bool:
    """Return whether `nbytes` from a host address on lie in one allocation of `host_alloc`."""
    return any(
        start <= pointer and pointer + nbytes <= start + size
        for start, size in list(_pinned.items())
    )


@dataclass(frozen=True)
class Allocation:
    """The allocation that an address lies in: its start, its bytes and its number.

    id: no other allocation of the process ever has it.
    """

    address: int
    nbytes: int
    id: int


def allocation(address: int) -> Allocation | None:
    """Return the allocation that covers a device address, None if there is none.

    (cuPointerGetAttribute; allowed in a capture.)
    """
    values = []
    for attribute in (_RANGE_START, _RANGE_SIZE, _BUFFER_ID):
        answer = gate.attempt(driver.cuPointerGetAttribute, attribute, address)
        if int(answer[0]) == _INVALID_VALUE:
            return None
        if int(answer[0]):
            args = (attribute, address)
            raise gate.failure("cuPointerGetAttribute", args, int(answer[0]), None)
        values.append(int(answer[1]))
    return Allocation(*values)


def is_pageable(pointer: int) -> bool:
    """Return whether the driver does not know an address, so that a copy of it must be staged.

    (cuPointerGetAttribute; it also knows what other libraries pinned.)
    """
    code = int(gate.attempt(driver.cuPointerGetAttribute, _MEMORY_TYPE, pointer)[0])
    return code == _INVALID_VALUE


def host_device_pointer(pointer: int) -> int:
    """Return the device's address of memory of `host_alloc` (cuMemHostGetDevicePointer)."""
    return int(gate.call(driver.cuMemHostGetDevicePointer, pointer, 0))


def copy_htod_async(dst: int, src: int, nbytes: int, stream: int) -> None:
    """Copy host to device (cuMemcpyHtoDAsync).

    A captured copy reads `src` again at every replay: it must be pinned and stay where it is.
    """
    nbytes = _number("cuMemcpyHtoDAsync: nbytes", nbytes)
    gate.call(driver.cuMemcpyHtoDAsync, dst, src, nbytes, stream, nbytes=nbytes)


def copy_dtoh_async(dst: int, src: int, nbytes: int, stream: int) -> None:
    """Copy device to host (cuMemcpyDtoHAsync); `dst` is a host address, pinned for a capture."""
    nbytes = _number("cuMemcpyDtoHAsync: nbytes", nbytes)
    gate.call(driver.cuMemcpyDtoHAsync, dst, src, nbytes, stream, nbytes=nbytes)


def copy_dtod_async(dst: int, src: int, nbytes: int, stream: int) -> None:
    """Copy device to device (cuMemcpyDtoDAsync)."""
    nbytes = _number("cuMemcpyDtoDAsync: nbytes", nbytes)
    gate.call(driver.cuMemcpyDtoDAsync, dst, src, nbytes, stream, nbytes=nbytes)


def memset_d8_async(dst: int, value: int, count: int, stream: int) -> None:
    """Set `count` bytes to `value` (cuMemsetD8Async)."""
    count = _number("cuMemsetD8Async: count", count)
    value = _number("cuMemsetD8Async: value", value, 0xFF)
    gate.call(driver.cuMemsetD8Async, dst, value, count, stream, nbytes=count)


def memset_d32_async(dst: int, value: int, count: int, stream: int) -> None:
    """Set `count` 32-bit words to `value`, an unsigned bit pattern (cuMemsetD32Async)."""
    count = _number("cuMemsetD32Async: count", count)
    value = _number("cuMemsetD32Async: value", value, 0xFFFFFFFF)
    gate.call(driver.cuMemsetD32Async, dst, value, count, stream, nbytes=4 * count)


def info() -> tuple[int, int]:
    """Return (free, total) device memory in bytes (cuMemGetInfo)."""
    free_bytes, total = gate.call(driver.cuMemGetInfo)
    return int(free_bytes), int(total)


def _number(what: str, value: int, most: int = _MOST) -> int:
    # A plain int passes at the price of a look: copies are made at every step.
    return value if type(value) is int and 0 <= value <= most else integer(value, what, 0, most)
