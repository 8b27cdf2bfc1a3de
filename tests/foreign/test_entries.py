"""Calls that only other programs make: contexts by name, clusters, pools, memory of graphs."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest
from cuda.bindings import driver as cu

from lowgraph.driver import Device
from tests.foreign import programs

pytestmark = pytest.mark.host

SUCCESS, INVALID_VALUE, INVALID_DEVICE, INVALID_CONTEXT = 0, 1, 101, 201
INVALID_HANDLE, NOT_SUPPORTED = 400, 801
CLUSTER = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
USED_HIGH = cu.CUgraphMem_attribute.CU_GRAPH_MEM_ATTR_USED_MEM_HIGH
POOL_OF = cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE
USED_NOW = cu.CUgraphMem_attribute.CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT


@pytest.fixture(scope="module")
def library(device: Device) -> Any:
    return ctypes.CDLL("libcuda.so.1")


@pytest.fixture(scope="module")
def function(device: Device) -> Any:
    image = programs.image_of(device, programs.EXAMPLE.with_suffix(".cu"))
    module = cu.cuModuleLoadData(image)[1]
    return cu.cuModuleGetFunction(module, b"square")[1]


def test_a_context_by_name(library: Any, device: Device) -> None:
    """cuCtxGetDevice and cuCtxSynchronize of CUDA 13 take the context; null is the current one."""
    number = ctypes.c_int(-1)
    for context in (device.context, 0):
        handle = ctypes.c_void_p(context)
        assert library.cuCtxGetDevice_v2(ctypes.byref(number), handle) == SUCCESS
        assert number.value == 0
        assert library.cuCtxSynchronize_v2(handle) == SUCCESS
    for call in (
        lambda handle: library.cuCtxGetDevice_v2(ctypes.byref(number), handle),
        library.cuCtxSynchronize_v2,
    ):
        assert call(ctypes.c_void_p(12345)) == INVALID_CONTEXT
    cu.cuCtxSetCurrent(0)
    try:
        assert library.cuCtxSynchronize_v2(None) == INVALID_CONTEXT
        assert library.cuCtxSynchronize_v2(ctypes.c_void_p(device.context)) == SUCCESS
    finally:
        device.make_current()


def test_flags_of_a_context_are_kept(library: Any, device: Device) -> None:
    before, blocking = int(cu.cuCtxGetFlags()[1]), 4
    assert library.cuCtxSetFlags(blocking) == SUCCESS
    assert int(cu.cuCtxGetFlags()[1]) == blocking
    assert library.cuCtxSetFlags(before) == SUCCESS


@pytest.mark.parametrize(
    ("blocks", "threads", "left"),
    [
        (1, 256, 227 << 10),  # the most that a block may have
        (2, 256, 114 << 10),  # half of 228 KiB
        (8, 256, 228 * 1024 // 8),
        (9, 256, None),  # 9 * 256 threads are more than the 2048 of a multiprocessor
        (0, 256, None),
        (1, 2048, None),
    ],
)
def test_shared_memory_that_is_left(
    function: Any, blocks: int, threads: int, left: int | None
) -> None:
    code, *found = cu.cuOccupancyAvailableDynamicSMemPerBlock(function, blocks, threads)
    assert int(code) == (SUCCESS if left is not None else INVALID_VALUE)
    if left is not None:
        assert found == [left]


def launch_config(cluster: int, threads: int = 64, shared: int = 0) -> Any:
    config, attribute = cu.CUlaunchConfig(), cu.CUlaunchAttribute()
    config.gridDimX, config.gridDimY, config.gridDimZ = 64, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
    config.sharedMemBytes = shared
    attribute.id = CLUSTER
    size = attribute.value.clusterDim
    size.x, size.y, size.z = cluster, 1, 1
    config.attrs, config.numAttrs = [attribute], 1
    return config


def test_clusters_that_fit(function: Any, device: Device) -> None:
    def most(config: Any) -> tuple[int, int]:
        code, number = cu.cuOccupancyMaxActiveClusters(function, config)
        return int(code), int(number or 0)

    at_once = 32 * device.multiprocessors  # blocks of 64 threads
    assert most(launch_config(1)) == (SUCCESS, at_once)
    assert most(launch_config(4)) == (SUCCESS, at_once // 4)
    raised = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    _, before = cu.cuFuncGetAttribute(raised, function)
    cu.cuFuncSetAttribute(function, raised, 200 << 10)
    assert most(launch_config(1, shared=200 << 10)) == (SUCCESS, device.multiprocessors)
    cu.cuFuncSetAttribute(function, raised, before)
    assert most(launch_config(16)) == (INVALID_VALUE, 0)
    assert most(launch_config(1, threads=2048)) == (INVALID_VALUE, 0)
    assert int(cu.cuOccupancyMaxPotentialClusterSize(function, launch_config(2))[1]) == 8


def place(kind: Any, number: int = 0) -> Any:
    location = cu.CUmemLocation()
    location.type, location.id = kind, number
    return location


def test_pools_by_location(library: Any, device: Device) -> None:
    """CUDA 13's calls give the same pools as the device's own; host memory has none."""
    on, pinned = cu.CUmemLocationType, 1
    raw = {
        "device": (ctypes.c_int * 2)(int(on.CU_MEM_LOCATION_TYPE_DEVICE), 0),
        "other": (ctypes.c_int * 2)(int(on.CU_MEM_LOCATION_TYPE_DEVICE), 1),
        "host": (ctypes.c_int * 2)(int(on.CU_MEM_LOCATION_TYPE_HOST), 0),
    }
    found = ctypes.c_void_p()

    def ask(call: str, where: str) -> int:
        return int(library[call](ctypes.byref(found), raw[where], pinned))

    assert ask("cuMemGetDefaultMemPool", "device") == SUCCESS
    assert found.value == int(cu.cuDeviceGetDefaultMemPool(0)[1])
    assert ask("cuMemGetMemPool", "device") == SUCCESS
    assert found.value == int(cu.cuDeviceGetMemPool(0)[1])
    assert library.cuMemSetMemPool(raw["device"], pinned, found) == SUCCESS
    assert library.cuMemSetMemPool(raw["device"], pinned, ctypes.c_void_p(99)) == INVALID_VALUE
    assert ask("cuMemGetMemPool", "other") == INVALID_DEVICE
    assert ask("cuMemGetMemPool", "host") == NOT_SUPPORTED


def test_who_may_use_a_pool(device: Device) -> None:
    pool, access = cu.cuDeviceGetDefaultMemPool(0)[1], cu.CUmemAccessDesc()
    access.location = place(cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE)
    access.flags = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    assert int(cu.cuMemPoolSetAccess(pool, [access], 1)[0]) == SUCCESS
    access.flags = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_NONE
    assert int(cu.cuMemPoolSetAccess(pool, [access], 1)[0]) == INVALID_VALUE, "its own device"
    access.location = place(cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 3)
    assert int(cu.cuMemPoolSetAccess(pool, [access], 1)[0]) == INVALID_DEVICE


def test_memory_tells_of_its_pool(device: Device) -> None:
    """The pool that it was taken from, whichever is the current one when it is asked."""

    def pool_of(address: Any) -> int:
        code, pool = cu.cuPointerGetAttribute(POOL_OF, address)
        assert int(code) == SUCCESS
        return int(pool or 0)

    place = cu.CUmemLocation()
    place.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    props = cu.CUmemPoolProps()
    props.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    props.location = place
    standard, own = cu.cuDeviceGetDefaultMemPool(0)[1], cu.cuMemPoolCreate(props)[1]
    stream = cu.cuStreamCreate(1)[1]
    taken = [cu.cuMemAllocAsync(100, stream)[1], cu.cuMemAllocFromPoolAsync(100, own, stream)[1]]
    cu.cuDeviceSetMemPool(0, own)
    taken.append(cu.cuMemAllocAsync(100, stream)[1])
    cu.cuDeviceSetMemPool(0, standard)
    assert [pool_of(address) for address in taken] == [int(standard), int(own), int(own)]
    plain = cu.cuMemAlloc(100)[1]
    assert pool_of(plain) == 0
    for address in taken:
        assert int(cu.cuMemFreeAsync(address, stream)[0]) == SUCCESS
    assert int(cu.cuStreamSynchronize(stream)[0]) == SUCCESS
    for free, handle in (
        (cu.cuMemFree, plain),
        (cu.cuMemPoolDestroy, own),
        (cu.cuStreamDestroy, stream),
    ):
        assert int(free(handle)[0]) == SUCCESS


def test_memory_of_graphs_is_counted(library: Any, device: Device) -> None:
    """An alloc node's memory counts from the launch that reaches it to its free."""

    def bytes_of(attribute: Any) -> int:
        return int(cu.cuDeviceGetGraphMemAttribute(0, attribute)[1])

    zero = ctypes.c_uint64(0)
    high = ctypes.c_int(int(USED_HIGH))
    assert library.cuDeviceSetGraphMemAttribute(0, high, ctypes.byref(zero)) == SUCCESS
    before = bytes_of(USED_NOW)
    stream = cu.cuStreamCreate(1)[1]
    cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    memory = cu.cuMemAllocAsync(10_000, stream)[1]
    graph = cu.cuStreamEndCapture(stream)[1]
    executable = cu.cuGraphInstantiate(graph, 0)[1]
    assert bytes_of(USED_NOW) == before, "a capture allocates nothing"
    cu.cuGraphLaunch(executable, stream)
    cu.cuStreamSynchronize(stream)
    assert bytes_of(USED_NOW) - before == 40 * 256  # 10 000 bytes, rounded up to 256
    cu.cuMemFree(memory)
    assert bytes_of(USED_NOW) == before
    assert bytes_of(USED_HIGH) - before == 40 * 256
    assert library.cuDeviceSetGraphMemAttribute(0, high, ctypes.byref(zero)) == SUCCESS
    assert bytes_of(USED_HIGH) == before
    assert int(cu.cuDeviceGraphMemTrim(0)[0]) == SUCCESS
    now, one = ctypes.c_int(int(USED_NOW)), ctypes.c_uint64(1)
    assert library.cuDeviceSetGraphMemAttribute(0, now, ctypes.byref(zero)) == INVALID_VALUE
    assert library.cuDeviceSetGraphMemAttribute(0, high, ctypes.byref(one)) == INVALID_VALUE
    assert library.cuDeviceGraphMemTrim(1) == INVALID_DEVICE
    for destroy, handle in (
        (cu.cuGraphExecDestroy, executable),
        (cu.cuGraphDestroy, graph),
        (cu.cuStreamDestroy, stream),
    ):
        assert int(destroy(handle)[0]) == SUCCESS


def test_modules_and_libraries_answer_alike(device: Device, tmp_path: Path) -> None:
    image = programs.image_of(device, programs.EXAMPLE.with_suffix(".cu"))
    library = cu.cuLibraryLoadData(image, [], [], 0, [], [], 0)[1]
    module = cu.cuLibraryGetModule(library)[1]
    kernels, functions = (
        [int(handle) for handle in answer[1]]
        for answer in (
            cu.cuLibraryEnumerateKernels(2, library),
            cu.cuModuleEnumerateFunctions(2, module),
        )
    )
    assert kernels == functions and len(set(kernels)) == 2
    kernel = cu.cuLibraryGetKernel(library, b"square")[1]
    assert int(kernel) in kernels
    cache = cu.CUfunc_cache.CU_FUNC_CACHE_PREFER_L1
    assert int(cu.cuKernelSetCacheConfig(kernel, cache, 0)[0]) == SUCCESS
    assert int(cu.cuKernelSetCacheConfig(kernel, cache, 1)[0]) == INVALID_DEVICE
    assert int(cu.cuLibraryUnload(library)[0]) == SUCCESS
    assert int(cu.cuModuleGetFunctionCount(module)[0]) == INVALID_HANDLE
    assert int(cu.cuKernelSetCacheConfig(kernel, cache, 0)[0]) == INVALID_HANDLE
