"""Memory: sizes, alignment, the pool, pinned memory; what a copy and a pointer query answer."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest
from cuda.bindings import driver as cu

from lowgraph import hostdev
from lowgraph.hostdev import control
from tests.hostdev.driver.kit import (
    INVALID_VALUE,
    NOT_FOUND,
    NOT_READY,
    OUT_OF_MEMORY,
    SUCCESS,
    Kit,
    code_of,
    must,
)

pytestmark = pytest.mark.host

MIB = 1 << 20
HOST, DEVICE = 1, 2  # CUmemorytype
ATTRIBUTES = cu.CUpointer_attribute


@pytest.fixture
def size(kit: Kit) -> Iterator[int]:
    """The device has 64 MiB more than is in use."""
    free, total = must(cu.cuMemGetInfo())
    control.set_memory(total - free + 64 * MIB)
    yield 64 * MIB
    control.set_memory(total)


def test_memory_is_used_up_at_the_size_that_was_set(kit: Kit, size: int) -> None:
    first = must(cu.cuMemAlloc(40 * MIB))
    assert code_of(cu.cuMemAlloc(25 * MIB)) == OUT_OF_MEMORY
    assert must(cu.cuMemGetInfo())[0] == size - 40 * MIB
    must(cu.cuMemFree(first))
    second = must(cu.cuMemAlloc(64 * MIB))
    must(cu.cuMemFree(second))
    assert must(cu.cuMemGetInfo())[0] == size


def test_stream_ordered_memory_counts_too(kit: Kit, size: int) -> None:
    stream = kit.stream()
    address = must(cu.cuMemAllocAsync(40 * MIB, stream))
    assert code_of(cu.cuMemAllocAsync(40 * MIB, stream)) == OUT_OF_MEMORY
    must(cu.cuMemFreeAsync(address, stream))
    must(cu.cuStreamSynchronize(stream))
    assert must(cu.cuMemGetInfo())[0] == size


@pytest.mark.parametrize("nbytes", [1, 4, 255, 256, 257, 4095, 4096, 5000])
def test_addresses_are_256_aligned_and_fresh_memory_is_poisoned(kit: Kit, nbytes: int) -> None:
    address = kit.alloc(nbytes)
    assert address % 256 == 0
    seen = (ctypes.c_ubyte * nbytes)()
    must(cu.cuMemcpyDtoH(ctypes.addressof(seen), address, nbytes))
    assert set(seen) == {0xFF}


def test_odd_allocations_are_refused(kit: Kit) -> None:
    assert code_of(cu.cuMemAlloc(0)) == INVALID_VALUE
    assert code_of(cu.cuMemAlloc(1 << 60)) == OUT_OF_MEMORY
    assert must(cu.cuMemHostAlloc(0, 0)) in (0, None)


def test_a_free_wants_the_start_of_live_memory(kit: Kit) -> None:
    address = must(cu.cuMemAlloc(1024))
    assert code_of(cu.cuMemFree(int(address) + 256)) == INVALID_VALUE
    assert code_of(cu.cuMemFree(0x1234)) == INVALID_VALUE
    assert code_of(cu.cuMemFree(0)) == SUCCESS
    assert code_of(cu.cuMemFree(address)) == SUCCESS
    assert code_of(cu.cuMemFree(address)) == INVALID_VALUE
    pinned = must(cu.cuMemHostAlloc(64, 0))
    assert code_of(cu.cuMemFree(pinned)) == INVALID_VALUE
    assert code_of(cu.cuMemFreeHost(pinned)) == SUCCESS
    assert code_of(cu.cuMemFreeHost(pinned)) == INVALID_VALUE


def test_a_free_waits_for_work_in_flight(kit: Kit) -> None:
    stream, x, y = kit.stream(), must(cu.cuMemAlloc(4)), kit.put([3.0])
    ran: list[int] = []
    kit.call_host(stream, lambda: ran.append(1))
    kit.scale(int(x), y, 1.0, 1, stream)
    must(cu.cuMemFree(x))
    assert ran == [1]
    assert code_of(cu.cuStreamQuery(stream)) == SUCCESS


def test_a_stream_ordered_free_does_not_wait(kit: Kit) -> None:
    stream, y = kit.stream(), kit.put([0.0])
    with kit.held(stream):
        x = int(must(cu.cuMemAllocAsync(4, stream)))
        must(cu.cuMemsetD32Async(x, 0x40400000, 1, stream))
        kit.scale(y, x, 2.0, 1, stream)
        must(cu.cuMemFreeAsync(x, stream))
        assert code_of(cu.cuMemFreeAsync(x, stream)) == INVALID_VALUE
        assert code_of(cu.cuStreamQuery(stream)) == NOT_READY
    assert kit.get(y, 1) == [6.0]


def test_a_free_that_overtakes_its_allocation_harms_nothing(kit: Kit) -> None:
    """On streams with no order between them; the recorded driver takes such pairs."""
    stream, other = kit.stream(), kit.stream()
    with kit.held(stream):
        x = int(must(cu.cuMemAllocAsync(4, stream)))
        must(cu.cuMemFreeAsync(x, other))
        must(cu.cuStreamSynchronize(other))
    assert code_of(cu.cuStreamSynchronize(stream)) == SUCCESS
    assert code_of(cu.cuCtxSynchronize()) == SUCCESS


def test_the_default_pool_counts_what_is_in_use(kit: Kit) -> None:
    pool, stream = must(cu.cuDeviceGetDefaultMemPool(0)), kit.stream()
    used = cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT
    before = int(must(cu.cuMemPoolGetAttribute(pool, used)))
    x = must(cu.cuMemAllocAsync(1000, stream))
    assert int(must(cu.cuMemPoolGetAttribute(pool, used))) == before + 1024
    must(cu.cuMemFreeAsync(x, stream))
    must(cu.cuStreamSynchronize(stream))
    assert int(must(cu.cuMemPoolGetAttribute(pool, used))) == before
    assert code_of(cu.cuMemPoolTrimTo(pool, 0)) == SUCCESS


def test_a_pointer_says_what_it_is(kit: Kit) -> None:
    address, pinned = kit.alloc(1000), int(must(cu.cuMemHostAlloc(512, 3)))
    pageable = (ctypes.c_char * 64)()
    ask = lambda name, p: cu.cuPointerGetAttribute(  # noqa: E731
        getattr(ATTRIBUTES, f"CU_POINTER_ATTRIBUTE_{name}"), p
    )
    assert int(must(ask("MEMORY_TYPE", address))) == DEVICE
    assert int(must(ask("MEMORY_TYPE", pinned))) == HOST
    assert code_of(ask("MEMORY_TYPE", ctypes.addressof(pageable))) == INVALID_VALUE
    assert int(must(ask("RANGE_START_ADDR", address + 500))) == address
    assert int(must(ask("RANGE_SIZE", address + 500))) == 1000
    assert int(must(ask("DEVICE_POINTER", pinned))) == pinned
    assert code_of(ask("HOST_POINTER", address)) == INVALID_VALUE
    assert tuple(map(int, must(cu.cuMemGetAddressRange(address + 999)))) == (address, 1000)
    assert code_of(cu.cuMemGetAddressRange(0x1234)) == NOT_FOUND
    assert must(cu.cuMemHostGetFlags(pinned)) == 3
    must(cu.cuMemFreeHost(pinned))


# Recorded on an H200 under "pointer: bytes that are written": of device memory, of pinned memory.
@pytest.mark.parametrize(
    ("name", "codes", "width"),
    [
        ("CONTEXT", (SUCCESS, SUCCESS), 8),
        ("MEMORY_TYPE", (SUCCESS, SUCCESS), 4),
        ("DEVICE_POINTER", (SUCCESS, SUCCESS), 8),
        ("HOST_POINTER", (INVALID_VALUE, SUCCESS), 8),
        ("SYNC_MEMOPS", (SUCCESS, SUCCESS), 4),
        ("BUFFER_ID", (SUCCESS, SUCCESS), 8),
        ("IS_MANAGED", (SUCCESS, SUCCESS), 4),
        ("DEVICE_ORDINAL", (SUCCESS, SUCCESS), 4),
        ("IS_LEGACY_CUDA_IPC_CAPABLE", (SUCCESS, SUCCESS), 4),
        ("RANGE_START_ADDR", (SUCCESS, SUCCESS), 8),
        ("RANGE_SIZE", (SUCCESS, SUCCESS), 8),
        ("MAPPED", (SUCCESS, SUCCESS), 4),
        ("IS_GPU_DIRECT_RDMA_CAPABLE", (SUCCESS, SUCCESS), 4),
        ("MEMPOOL_HANDLE", (SUCCESS, SUCCESS), 8),
    ],
)
def test_what_a_pointer_tells_is_as_wide_as_recorded(
    kit: Kit, name: str, codes: tuple[int, int], width: int
) -> None:
    pinned = int(must(cu.cuMemHostAlloc(512, 0)))
    which = int(getattr(ATTRIBUTES, f"CU_POINTER_ATTRIBUTE_{name}"))
    for address, code in zip((int(kit.alloc(1000)), pinned), codes, strict=True):
        changed = set()
        for pattern in (0x5A, 0xA5):
            place = (ctypes.c_ubyte * 32)(*[pattern] * 32)
            held = place, which, ctypes.c_size_t(address)
            assert hostdev.load().cuPointerGetAttribute(*held) == code
            changed |= {n for n in range(32) if place[n] != pattern}
        assert max(changed) + 1 == width
    must(cu.cuMemFreeHost(pinned))


def test_many_answers_at_once_are_as_wide_as_their_types(kit: Kit) -> None:
    """A caller's bool may have a neighbour."""
    names = ("IS_MANAGED", "MEMORY_TYPE", "HOST_POINTER")
    which = (ctypes.c_int * 3)(
        *(int(getattr(ATTRIBUTES, f"CU_POINTER_ATTRIBUTE_{name}")) for name in names)
    )
    places = [(ctypes.c_ubyte * 16)(*[0x5A] * 16) for _ in names]
    out = (ctypes.c_void_p * 3)(*map(ctypes.addressof, places))
    held = 3, which, out, ctypes.c_size_t(int(kit.alloc(1000)))
    assert hostdev.load().cuPointerGetAttributes(*held) == SUCCESS
    values = (b"\0", bytes([DEVICE, 0, 0, 0]), bytes(8))
    assert [bytes(place) for place in places] == [value.ljust(16, b"Z") for value in values]


def test_host_memory_is_registered_once(kit: Kit) -> None:
    memory = np.zeros(2048, np.uint8)
    address = memory.ctypes.data
    assert code_of(cu.cuMemHostGetDevicePointer(address, 0)) == INVALID_VALUE
    assert code_of(cu.cuMemHostRegister(address, 2048, 0)) == SUCCESS
    assert code_of(cu.cuMemHostRegister(address, 2048, 0)) == 712
    assert int(must(cu.cuMemHostGetDevicePointer(address, 0))) == address
    assert code_of(cu.cuMemHostUnregister(address)) == SUCCESS
    assert code_of(cu.cuMemHostUnregister(address)) == 713


BAD, OK = 0x1234, SUCCESS


def test_a_copy_with_an_address_that_is_not_device_memory_is_refused(kit: Kit) -> None:
    x, stream = kit.alloc(1000), kit.stream()
    host = np.zeros(8192, np.uint8)
    h = host.ctypes.data
    assert code_of(cu.cuMemcpyHtoD(x, h, 1000)) == OK
    assert code_of(cu.cuMemcpyHtoD(x, h, 1001)) == INVALID_VALUE
    assert code_of(cu.cuMemcpyHtoD(BAD, h, 10)) == INVALID_VALUE
    assert code_of(cu.cuMemcpyHtoD(BAD, h, 0)) == OK
    assert code_of(cu.cuMemcpyHtoD(h, h + 4096, 10)) == INVALID_VALUE
    assert code_of(cu.cuMemcpyHtoDAsync(BAD, h, 10, stream)) == INVALID_VALUE
    assert code_of(cu.cuMemcpyDtoD(x, BAD, 10)) == INVALID_VALUE
    assert code_of(cu.cuMemsetD8(BAD, 0, 10)) == INVALID_VALUE
    assert code_of(cu.cuMemsetD32(x + 1, 0, 10)) == INVALID_VALUE
    assert code_of(cu.cuMemsetD8Async(0, 0, 10, stream)) == INVALID_VALUE
    assert code_of(cu.cuCtxSynchronize()) == OK


def test_a_pitched_copy_moves_rows(kit: Kit) -> None:
    source = np.arange(6 * 8, dtype=np.float32).reshape(6, 8)
    target = kit.put([-1.0] * 5 * 10)
    params = cu.CUDA_MEMCPY2D()
    params.srcMemoryType, params.srcHost = cu.CUmemorytype.CU_MEMORYTYPE_HOST, source.ctypes.data
    params.srcPitch, params.srcXInBytes, params.srcY = 32, 8, 1
    params.dstMemoryType, params.dstDevice = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE, target
    params.dstPitch, params.dstXInBytes, params.dstY = 40, 4, 2
    params.WidthInBytes, params.Height = 12, 3
    must(cu.cuMemcpy2D(params))
    expected = np.full((5, 10), -1.0, np.float32)
    expected[2:5, 1:4] = source[1:4, 2:5]
    assert kit.get(target, 50) == expected.ravel().tolist()


def test_memsets_of_every_width(kit: Kit) -> None:
    x = kit.alloc(64)
    must(cu.cuMemsetD8(x, 0xAB, 64))
    must(cu.cuMemsetD16(x + 2, 0x1234, 3))
    must(cu.cuMemsetD32(x + 8, 0xDEADBEEF, 2))
    must(cu.cuMemsetD2D8(x + 32, 8, 7, 3, 2))
    seen = np.zeros(64, np.uint8)
    must(cu.cuMemcpyDtoH(seen.ctypes.data, x, 64))
    expected = np.full(64, 0xAB, np.uint8)
    expected[2:8].view(np.uint16)[:] = 0x1234
    expected[8:16].view(np.uint32)[:] = 0xDEADBEEF
    expected[32:35] = expected[40:43] = 7
    assert (seen == expected).all()
