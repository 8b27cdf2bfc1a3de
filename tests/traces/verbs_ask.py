"""`ask CALL [stream]`: driver calls of one fixed form each, for scenarios to name any of them.

The extra is what the reader beside the call makes of the answer, if that depends on no device.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from cuda.bindings import driver as cu

from tests.traces.world import BYTES, World, attempt

Answer = tuple[int, Any]
_Row = tuple[Callable[[World, Any], tuple[Any, ...]], Callable[[Any], Any]]
_ATTRIBUTE = cu.CUdevice_attribute


def _nothing(_value: Any) -> None:
    return None


def _row(arguments: Callable[[World, Any], tuple[Any, ...]], read: Callable[[Any], Any]) -> _Row:
    return arguments, read


def _same(world: World, _stream: Any) -> tuple[Any, ...]:
    return (world.buffers[1], world.buffers[0], 64)


def _rows(world: World) -> Any:
    copy = cu.CUDA_MEMCPY2D()
    copy.srcMemoryType = copy.dstMemoryType = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
    copy.srcDevice, copy.dstDevice = world.buffers
    copy.srcPitch = copy.dstPitch = 256
    copy.WidthInBytes, copy.Height = 64, 2
    return copy


def _box(world: World) -> Any:
    copy = cu.CUDA_MEMCPY3D()
    copy.srcMemoryType = copy.dstMemoryType = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
    copy.srcDevice, copy.dstDevice = world.buffers
    copy.srcPitch = copy.dstPitch = 64
    copy.srcHeight = copy.dstHeight = 4
    copy.WidthInBytes, copy.Height, copy.Depth = 32, 4, 2
    return copy


def _pool(_world: World) -> Any:
    return attempt(cu.cuDeviceGetDefaultMemPool, 0)[1]


def _launched(world: World, stream: Any) -> tuple[Any, ...]:
    shape = (1, 1, 1, 32, 1, 1, 0)
    return (world.functions["noop"], *shape, stream, world.pack_buffers())


_CALLS: dict[str, _Row] = {
    # The device and the driver.
    "cuInit": _row(lambda w, s: (0,), _nothing),
    "cuInit with flags": _row(lambda w, s: (1,), _nothing),
    "cuDriverGetVersion": _row(lambda w, s: (), lambda v: int(v) >= 12040),
    "cuDeviceGetCount": _row(lambda w, s: (), lambda v: int(v) >= 1),
    "cuDeviceGet": _row(lambda w, s: (0,), int),
    "cuDeviceGet of a number below 0": _row(lambda w, s: (-1,), _nothing),
    "cuDeviceGet of a number too high": _row(lambda w, s: (99,), _nothing),
    "cuDeviceGetName": _row(lambda w, s: (128, 0), lambda v: len(v) > 0),
    "cuDeviceTotalMem": _row(lambda w, s: (0,), lambda v: int(v) > 0),
    "cuDeviceGetAttribute": _row(
        lambda w, s: (_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0), int
    ),
    "cuDeviceGetAttribute of no device": _row(
        lambda w, s: (_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_WARP_SIZE, 99), _nothing
    ),
    "cuGetErrorString": _row(lambda w, s: (cu.CUresult(900),), lambda v: v.decode()),
    "cuGetErrorName": _row(lambda w, s: (cu.CUresult(910),), lambda v: v.decode()),
    "cuGetProcAddress": _row(lambda w, s: (b"cuLaunchHostFunc", 10000, 0), lambda v: int(v[1])),
    "cuGetProcAddress of a later version": _row(
        lambda w, s: (b"cuGraphInstantiate", 9000, 0), lambda v: int(v[1])
    ),
    "cuGetProcAddress of no name": _row(lambda w, s: (b"cuNothing", 12000, 0), _nothing),
    # Contexts.
    "cuCtxGetFlags": _row(lambda w, s: (), _nothing),
    "cuCtxGetCacheConfig": _row(lambda w, s: (), int),
    "cuCtxGetStreamPriorityRange": _row(lambda w, s: (), lambda v: [int(end) for end in v]),
    "cuDeviceGetMemPool": _row(lambda w, s: (0,), _nothing),
    "cuDeviceGetDefaultMemPool": _row(lambda w, s: (0,), _nothing),
    # Streams.
    "cuStreamCreateWithPriority": _row(lambda w, s: (1, -1), _nothing),
    "cuStreamCreate with unknown flags": _row(lambda w, s: (8,), _nothing),
    "cuEventCreate with unknown flags": _row(lambda w, s: (64,), _nothing),
    "cuStreamGetCtx": _row(lambda w, s: (s,), _nothing),
    "cuStreamGetId": _row(lambda w, s: (s,), _nothing),
    # Launches.
    "cuLaunchKernel": _row(lambda w, s: (*_launched(w, s), 0), _nothing),
    "cuLaunchCooperativeKernel": _row(_launched, _nothing),
    # Copies, on the stream and at once.
    "cuMemcpy": _row(_same, _nothing),
    "cuMemcpyDtoD": _row(_same, _nothing),
    "cuMemcpyAsync": _row(lambda w, s: (*_same(w, s), s), _nothing),
    "cuMemcpyDtoDAsync": _row(lambda w, s: (*_same(w, s), s), _nothing),
    "cuMemcpyDtoDAsync of nothing": _row(lambda w, s: (*w.buffers, 0, s), _nothing),
    "cuMemcpyPeerAsync": _row(
        lambda w, s: (w.buffers[1], w.device.context, w.buffers[0], w.device.context, 64, s),
        _nothing,
    ),
    "cuMemcpyPeer": _row(
        lambda w, s: (w.buffers[1], w.device.context, w.buffers[0], w.device.context, 64), _nothing
    ),
    "cuMemcpy2D": _row(lambda w, s: (_rows(w),), _nothing),
    "cuMemcpy2DUnaligned": _row(lambda w, s: (_rows(w),), _nothing),
    "cuMemcpy2DAsync": _row(lambda w, s: (_rows(w), s), _nothing),
    "cuMemcpy3D": _row(lambda w, s: (_box(w),), _nothing),
    "cuMemcpy3DAsync": _row(lambda w, s: (_box(w), s), _nothing),
    # Memsets.
    "cuMemsetD16": _row(lambda w, s: (w.buffers[0], 1, 16), _nothing),
    "cuMemsetD32": _row(lambda w, s: (w.buffers[0], 1, 16), _nothing),
    "cuMemsetD16Async": _row(lambda w, s: (w.buffers[0], 1, 16, s), _nothing),
    "cuMemsetD32Async": _row(lambda w, s: (w.buffers[0], 1, 16, s), _nothing),
    "cuMemsetD8Async of nothing": _row(lambda w, s: (w.buffers[0], 1, 0, s), _nothing),
    "cuMemsetD32Async, misaligned": _row(lambda w, s: (int(w.buffers[0]) + 2, 1, 16, s), _nothing),
    "cuMemsetD2D8": _row(lambda w, s: (w.buffers[0], 256, 1, 64, 2), _nothing),
    "cuMemsetD2D16": _row(lambda w, s: (w.buffers[0], 256, 1, 32, 2), _nothing),
    "cuMemsetD2D32": _row(lambda w, s: (w.buffers[0], 256, 1, 16, 2), _nothing),
    "cuMemsetD2D16Async": _row(lambda w, s: (w.buffers[0], 256, 1, 32, 2, s), _nothing),
    "cuMemsetD2D32Async": _row(lambda w, s: (w.buffers[0], 256, 1, 16, 2, s), _nothing),
    # Memory. What these make is kept by nobody: a few hundred bytes each.
    "cuMemAllocPitch": _row(lambda w, s: (100, 2, 4), lambda v: int(v[1]) >= 100),
    "cuMemAllocHost": _row(lambda w, s: (256,), _nothing),
    "cuMemAllocFromPoolAsync": _row(lambda w, s: (256, _pool(w), s), _nothing),
    "cuMemHostGetFlags": _row(lambda w, s: (int(w.pinned),), _nothing),
    "cuMemHostRegister of pinned memory": _row(lambda w, s: (int(w.pinned), BYTES, 0), _nothing),
    "cuMemHostUnregister of what is not registered": _row(
        lambda w, s: (ctypes.addressof(w.pageable),), _nothing
    ),
    "cuMemFree of an address inside": _row(lambda w, s: (int(w.buffers[0]) + 256,), _nothing),
    "cuMemFreeHost of pageable memory": _row(
        lambda w, s: (ctypes.addressof(w.pageable),), _nothing
    ),
    "cuMemFreeAsync of an address inside": _row(
        lambda w, s: (int(w.buffers[0]) + 256, s), _nothing
    ),
    "cuMemAlloc beyond the device": _row(lambda w, s: (1 << 48,), _nothing),
    # Functions.
    "cuFuncSetCacheConfig": _row(
        lambda w, s: (w.functions["noop"], cu.CUfunc_cache.CU_FUNC_CACHE_PREFER_L1), _nothing
    ),
    "cuFuncGetModule": _row(lambda w, s: (w.functions["noop"],), _nothing),
    "cuOccupancyMaxPotentialBlockSize": _row(
        lambda w, s: (w.functions["noop"], cu.CUoccupancyB2DSize(0), 0, 0), _nothing
    ),
    "cuModuleLoadDataEx": _row(lambda w, s: (w.image, 0, None, None), _nothing),
    "cuModuleLoadFatBinary": _row(lambda w, s: (w.image,), _nothing),
    "cuModuleLoad of no file": _row(lambda w, s: (b"/nothing/there",), _nothing),
    "cuLibraryLoadFromFile of no file": _row(
        lambda w, s: (b"/nothing/there", None, None, 0, None, None, 0), _nothing
    ),
    "cuModuleGetFunctionCount": _row(lambda w, s: (w.module,), int),
    "cuModuleEnumerateFunctions": _row(lambda w, s: (2, w.module), len),
    "cuModuleEnumerateFunctions of none": _row(lambda w, s: (0, w.module), len),
    "cuModuleGetLoadingMode": _row(lambda w, s: (), _nothing),
    "cuModuleGetGlobal of no name": _row(lambda w, s: (w.module, b"nothing"), _nothing),
}
CALLS = tuple(_CALLS)
ON_STREAM = tuple(name for name in CALLS if name.split()[0].rstrip(",").endswith("Async")
                  or name.startswith("cuLaunch"))  # fmt: skip


def ask(world: World, *words: str) -> Answer:
    """Make the call that the words name; a last word that is a stream is the stream."""
    known = {*world.streams, *world.fixed_streams}
    stream = world.stream(words[-1]) if words[-1] in known else world.streams["s"]
    name = " ".join(words[:-1] if words[-1] in known else words)
    arguments, read = _CALLS[name]
    code, value = attempt(getattr(cu, name.split()[0].rstrip(",")), *arguments(world, stream))
    return code, read(value) if code == 0 else None


VERBS = {"ask": ask}
