"""Driver calls that have no place in a capture window, and what to do instead, by their names."""

from __future__ import annotations

from typing import NamedTuple

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


class _Rule(NamedTuple):
    """What is refused alike. why: follows the sentence of who called."""

    calls: frozenset[str]
    error: type[CaptureRefused]
    why: str
    remedy: str


_RULES = (
    _Rule(
        _SYNCS,
        SyncDuringCapture,
        ", where nothing runs to wait for",
        "read results after the step, outside its body",
    ),
    _Rule(
        _MEMORY,
        CaptureAllocationError,
        "; it would break the capture",
        "take memory before the step, or from the pool inside a primed body",
    ),
    _Rule(
        AT_ONCE,
        CaptureIncomplete,
        ": it would run at once and be in no replay",
        "use the async form on the step's stream, or copy before the step",
    ),
    _Rule(
        _MODULES,
        ModuleLoadDuringCapture,
        "; a replay would not do it again",
        "ask the library for its kernels before the step",
    ),
    _Rule(
        _GRAPHS,
        CaptureRefused,
        ", which has to end first",
        "one window at a time: do it after the step",
    ),
)


def misplaced(op: str, said: str, where: str) -> CaptureRefused | None:
    """The refusal of a driver call in a window; None for one that may be made there.

    op: its name. said: who called it, as a sentence; where: the user's file:line.
    """
    rule = next((rule for rule in _RULES if op in rule.calls), None)
    return None if rule is None else rule.error(f"{said}{rule.why}", where, rule.remedy)
