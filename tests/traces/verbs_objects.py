"""Verbs of contexts, pointers, functions, modules and libraries.

Each returns (code, extra). An extra holds only what does not depend on the device's size.
"""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver as cu

from tests.traces.world import World, attempt

Answer = tuple[int, Any]
_POINTER = cu.CUpointer_attribute
_FUNCTION = cu.CUfunction_attribute


# ---- Contexts ----
def ctx_clear(_world: World) -> Answer:
    """cuCtxSetCurrent of none: the calling thread has no context."""
    return attempt(cu.cuCtxSetCurrent, cu.CUcontext(0))[0], None


def ctx_restore(world: World) -> Answer:
    """cuCtxSetCurrent of the device's context."""
    return attempt(cu.cuCtxSetCurrent, world.device.context)[0], None


def ctx_get(_world: World) -> Answer:
    """cuCtxGetCurrent; extra: whether there is one."""
    code, context = attempt(cu.cuCtxGetCurrent)
    return code, bool(int(context)) if code == 0 else None


def ctx_push(world: World) -> Answer:
    """cuCtxPushCurrent of the device's context."""
    return attempt(cu.cuCtxPushCurrent, world.device.context)[0], None


def ctx_pop(world: World) -> Answer:
    """cuCtxPopCurrent; extra: whether it was the device's."""
    code, context = attempt(cu.cuCtxPopCurrent)
    return code, int(context) == world.device.context if code == 0 else None


def ctx_device(_world: World) -> Answer:
    """cuCtxGetDevice; extra: its number."""
    code, device = attempt(cu.cuCtxGetDevice)
    return code, int(device) if code == 0 else None


def ctx_get_limit(_world: World) -> Answer:
    """cuCtxGetLimit of the print buffer."""
    return attempt(cu.cuCtxGetLimit, cu.CUlimit.CU_LIMIT_PRINTF_FIFO_SIZE)[0], None


def primary_state(_world: World) -> Answer:
    """cuDevicePrimaryCtxGetState; extra: whether it is active."""
    code, answer = attempt(cu.cuDevicePrimaryCtxGetState, 0)
    return code, int(answer[1]) if code == 0 else None


def primary_retain(_world: World) -> Answer:
    """cuDevicePrimaryCtxRetain."""
    return attempt(cu.cuDevicePrimaryCtxRetain, 0)[0], None


def primary_release(_world: World) -> Answer:
    """cuDevicePrimaryCtxRelease; only after a primary_retain."""
    return attempt(cu.cuDevicePrimaryCtxRelease, 0)[0], None


# ---- Pointers and streams ----
def pointer(world: World, attribute: str, name: str) -> Answer:
    """cuPointerGetAttribute, the name as in CU_POINTER_ATTRIBUTE_; extra: a number, an address
    as its distance from the pointer."""
    which, address = getattr(_POINTER, f"CU_POINTER_ATTRIBUTE_{attribute}"), world.address(name)
    code, value = attempt(cu.cuPointerGetAttribute, which, address)
    if code:
        return code, None
    number = int(value)
    places = attribute.endswith("POINTER") or attribute == "RANGE_START_ADDR"
    if attribute in ("CONTEXT", "BUFFER_ID"):
        number = bool(number)
    return code, number - address if places and number else number


def pointers(world: World, name: str) -> Answer:
    """cuPointerGetAttributes of the memory's type and whether it is managed; extra: both."""
    which = [
        _POINTER.CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        _POINTER.CU_POINTER_ATTRIBUTE_IS_MANAGED,
    ]
    code, values = attempt(cu.cuPointerGetAttributes, len(which), which, world.address(name))
    return code, [int(value) for value in values] if code == 0 else None


def device_pointer(world: World, name: str) -> Answer:
    """cuMemHostGetDevicePointer; extra: whether it is the same address."""
    address = world.address(name)
    code, found = attempt(cu.cuMemHostGetDevicePointer, address, 0)
    return code, int(found) == address if code == 0 else None


def range_of(world: World, name: str) -> Answer:
    """cuMemGetAddressRange; extra: offset of the start, and the size in bytes."""
    address = world.address(name)
    code, answer = attempt(cu.cuMemGetAddressRange, address)
    return code, [int(answer[0]) - address, int(answer[1])] if code == 0 else None


def stream_flags(world: World, stream: str) -> Answer:
    """cuStreamGetFlags; extra: the flags."""
    code, flags = attempt(cu.cuStreamGetFlags, world.stream(stream))
    return code, int(flags) if code == 0 else None


def stream_priority(world: World, stream: str) -> Answer:
    """cuStreamGetPriority; extra: the priority."""
    code, priority = attempt(cu.cuStreamGetPriority, world.stream(stream))
    return code, int(priority) if code == 0 else None


def copy_rows_async(world: World, stream: str, width: str, rows: str) -> Answer:
    """cuMemcpy2DAsync between the buffers, the rows 256 bytes apart."""
    copy = cu.CUDA_MEMCPY2D()
    copy.srcMemoryType = copy.dstMemoryType = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
    copy.srcDevice, copy.dstDevice = world.buffers
    copy.srcPitch = copy.dstPitch = 256
    copy.WidthInBytes, copy.Height = int(width), int(rows)
    return attempt(cu.cuMemcpy2DAsync, copy, world.stream(stream))[0], None


def fill_rows_async(world: World, stream: str, width: str, rows: str, value: str = "0") -> Answer:
    """cuMemsetD2D8Async, the rows 256 bytes apart."""
    shape = 256, int(value), int(width), int(rows)
    return attempt(cu.cuMemsetD2D8Async, world.buffers[0], *shape, world.stream(stream))[0], None


def copy_any_async(world: World, stream: str) -> Answer:
    """cuMemcpyAsync: the kinds of memory from the addresses."""
    ends = world.buffers[1], world.buffers[0]
    return attempt(cu.cuMemcpyAsync, *ends, 64, world.stream(stream))[0], None


def copy_dtod(world: World) -> Answer:
    """cuMemcpyDtoD, the synchronous form."""
    return attempt(cu.cuMemcpyDtoD, world.buffers[1], world.buffers[0], 64)[0], None


# ---- Functions, modules, libraries ----
def function_attribute(world: World, kernel: str, attribute: str) -> Answer:
    """cuFuncGetAttribute, the name as in CU_FUNC_ATTRIBUTE_; extra: the value."""
    which = getattr(_FUNCTION, f"CU_FUNC_ATTRIBUTE_{attribute}")
    code, value = attempt(cu.cuFuncGetAttribute, which, world.functions[kernel])
    return code, int(value) if code == 0 else None


def param_info(world: World, kernel: str, index: str) -> Answer:
    """cuFuncGetParamInfo; extra: offset and size."""
    code, answer = attempt(cu.cuFuncGetParamInfo, world.functions[kernel], int(index))
    return code, [int(value) for value in answer] if code == 0 else None


def function_name(world: World, kernel: str) -> Answer:
    """cuFuncGetName; extra: the name."""
    code, name = attempt(cu.cuFuncGetName, world.functions[kernel])
    return code, bytes(name).decode() if code == 0 else None


def function_loaded(world: World, kernel: str) -> Answer:
    """cuFuncIsLoaded; extra: the state."""
    code, state = attempt(cu.cuFuncIsLoaded, world.functions[kernel])
    return code, int(state) if code == 0 else None


def function_load(world: World, kernel: str) -> Answer:
    """cuFuncLoad."""
    return attempt(cu.cuFuncLoad, world.functions[kernel])[0], None


def occupancy(world: World, kernel: str, block: str, shared: str = "0") -> Answer:
    """cuOccupancyMaxActiveBlocksPerMultiprocessor; extra: whether any block fits."""
    arguments = world.functions[kernel], int(block), int(shared)
    code, blocks = attempt(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor, *arguments)
    return code, int(blocks) > 0 if code == 0 else None


def module_function(world: World, module: str, kernel: str) -> Answer:
    """cuModuleGetFunction of a module by its name."""
    return attempt(cu.cuModuleGetFunction, world.modules[module], kernel.encode())[0], None


def library_load(world: World, name: str) -> Answer:
    """cuLibraryLoadData."""
    code, handle = attempt(cu.cuLibraryLoadData, world.image, None, None, 0, None, None, 0)
    if code == 0:
        world.libraries[name] = handle
    return code, None


def library_unload(world: World, name: str) -> Answer:
    """cuLibraryUnload."""
    return attempt(cu.cuLibraryUnload, world.libraries.pop(name))[0], None


def library_function(world: World, name: str, kernel: str) -> Answer:
    """cuLibraryGetKernel and cuKernelGetFunction; the function is `NAME.KERNEL` from then on."""
    code, found = attempt(cu.cuLibraryGetKernel, world.libraries[name], kernel.encode())
    if code == 0:
        code, function = attempt(cu.cuKernelGetFunction, found)
    if code == 0:
        world.functions[f"{name}.{kernel}"] = function
    return code, None


def library_module(world: World, name: str) -> Answer:
    """cuLibraryGetModule."""
    return attempt(cu.cuLibraryGetModule, world.libraries[name])[0], None


_FUNCTIONS = (
    ctx_clear, ctx_restore, ctx_get, ctx_push, ctx_pop, ctx_device, ctx_get_limit, primary_state,
    primary_retain, primary_release, pointer, pointers, device_pointer, range_of, stream_flags,
    stream_priority, copy_rows_async, fill_rows_async, copy_any_async, copy_dtod,
    function_attribute, param_info, function_name, function_loaded, function_load, occupancy,
    module_function, library_load, library_unload, library_function, library_module,
)  # fmt: skip
VERBS = {function.__name__: function for function in _FUNCTIONS}
