"""Driver calls that have no place in a capture window, and what to do instead, by their names."""

from __future__ import annotations

from lowgraph.capture.stream_calls import AT_ONCE
from lowgraph.errors import (
    CaptureAllocationError,
    CaptureIncomplete,
    CaptureRefused,
    ModuleLoadDuringCapture,
    SyncDuringCapture,
)

__all__ = ["misplaced"]

_SYNCS = frozenset(
    {
        "cuStreamSynchronize",
        "cuStreamQuery",
        "cuEventSynchronize",
        "cuEventQuery",
        "cuCtxSynchronize",
    }
)
_MEMORY = frozenset(
    {
        "cuMemAlloc",
        "cuMemAllocAsync",
        "cuMemAllocFromPoolAsync",
        "cuMemAllocHost",
        "cuMemAllocManaged",
        "cuMemAllocPitch",
        "cuMemFree",
        "cuMemFreeAsync",
        "cuMemHostAlloc",
        "cuMemFreeHost",
        "cuMemHostRegister",
        "cuMemHostUnregister",
        "cuMemPoolTrimTo",
    }
)
_MODULES = frozenset(
    {
        "cuModuleLoad",
        "cuModuleLoadData",
        "cuModuleLoadDataEx",
        "cuModuleLoadFatBinary",
        "cuModuleUnload",
        "cuLibraryLoadData",
        "cuLibraryLoadFromFile",
        "cuLibraryUnload",
        "cuFuncLoad",
    }
)
_GRAPHS = frozenset(
    {
        "cuStreamBeginCapture",
        "cuStreamBeginCaptureToGraph",
        "cuStreamEndCapture",
        "cuStreamDestroy",
        "cuGraphLaunch",
        "cuGraphInstantiate",
        "cuGraphInstantiateWithParams",
        "cuGraphUpload",
        "cuGraphExecUpdate",
        "cuGraphExecDestroy",
        "cuGraphDestroy",
    }
)


def misplaced(op: str, said: str, where: str) -> CaptureRefused | None:
    """The refusal of a driver call in a window; None for one that may be made there.

    op: its name. said: who called it, as a sentence; where: the user's file:line.
    """
    if op in _SYNCS:
        remedy = "read results after the step, outside its body"
        return SyncDuringCapture(f"{said}, where nothing runs to wait for", where, remedy)
    if op in _MEMORY:
        remedy = "take memory before the step, or from the pool inside a primed body"
        return CaptureAllocationError(f"{said}; it would break the capture", where, remedy)
    if op in AT_ONCE:
        remedy = "use the async form on the step's stream, or copy before the step"
        return CaptureIncomplete(f"{said}: it would run at once and be in no replay", where, remedy)
    if op in _MODULES:
        remedy = "ask the library for its kernels before the step"
        return ModuleLoadDuringCapture(f"{said}; a replay would not do it again", where, remedy)
    if op in _GRAPHS:
        remedy = "one window at a time: do it after the step"
        return CaptureRefused(f"{said}, which has to end first", where, remedy)
    return None
