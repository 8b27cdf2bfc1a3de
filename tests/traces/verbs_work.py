"""Verbs that make work or touch memory and modules. Each returns (code, extra)."""

from __future__ import annotations

import ctypes
from typing import Any

from cuda.bindings import driver as cu

from tests.traces.world import BYTES, World, attempt

Answer = tuple[int, Any]
SIZE = 256


_LAUNCH_ATTRIBUTES = ("cluster", "cooperative", "priority", "domain")


def shaped(params: Any, options: dict[str, str]) -> Any:
    """Set grid, block and shared memory of a launch or a node: grid= gridy= gridz= block= ..."""
    params.gridDimX, params.blockDimX = int(options.get("grid", 1)), int(options.get("block", 32))
    for axis in "yz":
        setattr(params, f"gridDim{axis.upper()}", int(options.get(f"grid{axis}", 1)))
        setattr(params, f"blockDim{axis.upper()}", int(options.get(f"block{axis}", 1)))
    params.sharedMemBytes = int(options.get("shared", 0))
    return params


def _launch_config(world: World, stream: str, options: dict[str, str]) -> Any:
    config = shaped(cu.CUlaunchConfig(), options)
    config.hStream = world.stream(stream)
    attributes = [_attribute(key, int(options[key])) for key in _LAUNCH_ATTRIBUTES
                  if key in options]  # fmt: skip
    if attributes:
        config.attrs = attributes
        config.numAttrs = len(attributes)
    return config


def _attribute(key: str, value: int) -> Any:
    attribute = cu.CUlaunchAttribute()
    if key == "cooperative":
        attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        attribute.value.cooperative = value
        return attribute
    if key == "priority":
        attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PRIORITY
        attribute.value.priority = value
        return attribute
    if key == "domain":
        attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN
        attribute.value.memSyncDomain = cu.CUlaunchMemSyncDomain(value)
        return attribute
    attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    attribute.value.clusterDim.x = value
    attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1
    return attribute


def _arguments(world: World, kernel: str, options: dict[str, str]) -> int:
    if kernel == "hold":
        return world.hold()
    if kernel == "stray_store":
        return world.pack(ctypes.c_void_p(16))
    if kernel == "cluster_size":
        return world.pack(ctypes.c_void_p(int(world.buffers[0])))
    return world.pack_buffers("swapped" in options)


def launch(world: World, stream: str, *settings: str) -> Answer:
    """cuLaunchKernelEx; settings kernel= swapped= cluster= cooperative= priority= domain=, and
    those of `shaped`."""
    options = dict(setting.split("=", 1) for setting in settings)
    kernel = options.get("kernel", "noop")
    config = _launch_config(world, stream, options)
    code, _ = attempt(
        cu.cuLaunchKernelEx, config, world.functions[kernel], _arguments(world, kernel, options), 0
    )
    return code, None


def allow_shared(world: World, kernel: str, nbytes: str) -> Answer:
    """cuFuncSetAttribute: the most dynamic shared memory of a kernel."""
    name = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    return attempt(cu.cuFuncSetAttribute, world.functions[kernel], name, int(nbytes))[0], None


def release(world: World) -> Answer:
    """Let held kernels end (a host store, no driver call)."""
    world.release()
    return 0, None


def release_sync(world: World, stream: str) -> Answer:
    """Let held kernels end, then cuStreamSynchronize: no call between that a fault could meet."""
    world.release()
    return attempt(cu.cuStreamSynchronize, world.stream(stream))[0], None


def copy_htod(world: World) -> Answer:
    """cuMemcpyHtoD, the synchronous form."""
    source = ctypes.addressof(world.pageable)
    return attempt(cu.cuMemcpyHtoD, world.buffers[0], source, SIZE)[0], None


def copy_dtoh(world: World) -> Answer:
    """cuMemcpyDtoH, the synchronous form."""
    target = ctypes.addressof(world.pageable)
    return attempt(cu.cuMemcpyDtoH, target, world.buffers[0], SIZE)[0], None


def copy_htod_async(world: World, stream: str, kind: str = "pinned") -> Answer:
    """cuMemcpyHtoDAsync from pinned or pageable memory."""
    source = int(world.pinned) if kind == "pinned" else ctypes.addressof(world.pageable)
    handle = world.stream(stream)
    return attempt(cu.cuMemcpyHtoDAsync, world.buffers[0], source, SIZE, handle)[0], None


def copy_dtoh_async(world: World, stream: str, kind: str = "pinned") -> Answer:
    """cuMemcpyDtoHAsync to pinned (past the flag) or pageable memory."""
    pinned = int(world.pinned) + BYTES // 2
    target = pinned if kind == "pinned" else ctypes.addressof(world.pageable)
    handle = world.stream(stream)
    return attempt(cu.cuMemcpyDtoHAsync, target, world.buffers[0], SIZE, handle)[0], None


def copy_dtod_async(world: World, stream: str, nbytes: str = "64", order: str = "01") -> Answer:
    """cuMemcpyDtoDAsync between the two buffers; order "10" swaps them."""
    target, source = (world.buffers[int(digit)] for digit in order)
    handle = world.stream(stream)
    return attempt(cu.cuMemcpyDtoDAsync, target, source, int(nbytes), handle)[0], None


def memset(world: World) -> Answer:
    """cuMemsetD8, the synchronous form."""
    return attempt(cu.cuMemsetD8, world.buffers[0], 0, SIZE)[0], None


def memset_async(
    world: World, stream: str, value: str = "0", count: str = "64", bits: str = "8"
) -> Answer:
    """cuMemsetD8Async or cuMemsetD32Async: count elements."""
    fill = cu.cuMemsetD8Async if bits == "8" else cu.cuMemsetD32Async
    handle = world.stream(stream)
    return attempt(fill, world.buffers[0], int(value), int(count), handle)[0], None


def alloc(world: World, name: str) -> Answer:
    """cuMemAlloc."""
    code, address = attempt(cu.cuMemAlloc, SIZE)
    if code == 0:
        world.memory[name] = address
    return code, None


def free(world: World, name: str) -> Answer:
    """cuMemFree."""
    code, _ = attempt(cu.cuMemFree, world.memory[name])
    if code == 0:
        del world.memory[name]
    return code, None


def free_graph(world: World, name: str) -> Answer:
    """cuMemFree of an address that a graph allocates."""
    return attempt(cu.cuMemFree, world.graph_memory[name])[0], None


def alloc_async(world: World, name: str, stream: str) -> Answer:
    """cuMemAllocAsync. An address that a capture gave is the graph's: the world leaves it."""
    capturing = any(world.status())
    code, address = attempt(cu.cuMemAllocAsync, SIZE, world.stream(stream))
    if code == 0:
        (world.graph_memory if capturing else world.memory)[name] = address
    return code, None


def free_async(world: World, name: str, stream: str) -> Answer:
    """cuMemFreeAsync."""
    home = world.memory if name in world.memory else world.graph_memory
    code, _ = attempt(cu.cuMemFreeAsync, home[name], world.stream(stream))
    if code == 0:
        del home[name]
    return code, None


def host_alloc(world: World) -> Answer:
    """cuMemHostAlloc, freed by the world's end."""
    code, pointer = attempt(cu.cuMemHostAlloc, SIZE, 0)
    if code == 0:
        world.host_memory.append(pointer)
    return code, None


def host_free(world: World) -> Answer:
    """cuMemFreeHost of what host_alloc made last."""
    code, _ = attempt(cu.cuMemFreeHost, world.host_memory[-1])
    if code == 0:
        del world.host_memory[-1]
    return code, None


def host_register(world: World) -> Answer:
    """cuMemHostRegister, undone at once when it succeeds."""
    pointer = ctypes.addressof(world.pageable)
    code, _ = attempt(cu.cuMemHostRegister, pointer, BYTES, 0)
    if code == 0:
        world.registered = pointer
    return code, None


def mem_info(world: World) -> Answer:
    """cuMemGetInfo."""
    return attempt(cu.cuMemGetInfo)[0], None


def pool_trim(world: World) -> Answer:
    """cuDeviceGetDefaultMemPool, which is always answered, and cuMemPoolTrimTo."""
    code, pool = attempt(cu.cuDeviceGetDefaultMemPool, 0)
    return (code, None) if code else (attempt(cu.cuMemPoolTrimTo, pool, 0)[0], None)


def ctx_limit(world: World) -> Answer:
    """cuCtxSetLimit."""
    return attempt(cu.cuCtxSetLimit, cu.CUlimit.CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20)[0], None


def module_load(world: World, name: str) -> Answer:
    """cuModuleLoadData."""
    code, module = attempt(cu.cuModuleLoadData, world.image)
    if code == 0:
        world.modules[name] = module
    return code, None


def module_unload(world: World, name: str) -> Answer:
    """cuModuleUnload."""
    code, _ = attempt(cu.cuModuleUnload, world.modules[name])
    if code == 0:
        del world.modules[name]
    return code, None


def get_function(world: World, kernel: str) -> Answer:
    """cuModuleGetFunction of the world's module."""
    return attempt(cu.cuModuleGetFunction, world.module, kernel.encode())[0], None


_FUNCTIONS = (
    launch, allow_shared, release, release_sync, copy_htod, copy_dtoh, copy_htod_async,
    copy_dtoh_async, copy_dtod_async, memset, memset_async, alloc, free, free_graph, alloc_async,
    free_async,
    host_alloc, host_free, host_register, mem_info, pool_trim, ctx_limit, module_load,
    module_unload, get_function,
)  # fmt: skip
VERBS = {function.__name__: function for function in _FUNCTIONS}
