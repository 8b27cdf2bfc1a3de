"""WindowGuard: what has no place in a capture window is refused before the driver sees it.

Some of them would invalidate the capture (facts: 900), some would slip through and be missing from
every replay: work on a stream that is not in the capture runs at once, without an error. Only the
window's own thread is guarded; in thread-local mode others may do what they like.
"""

from __future__ import annotations

import threading
from typing import Any

from lowgraph.driver import gate
from lowgraph.errors import (
    CaptureAllocationError,
    CaptureIncomplete,
    CaptureRefused,
    ModuleLoadDuringCapture,
    SyncDuringCapture,
)
from lowgraph.memory import open_window

__all__ = ["WindowGuard"]

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
        "cuMemFree",
        "cuMemFreeAsync",
        "cuMemHostAlloc",
        "cuMemFreeHost",
        "cuMemHostRegister",
        "cuMemHostUnregister",
    }
)
_MODULES = frozenset({"cuModuleLoadData", "cuModuleUnload", "cuFuncLoad"})
_GRAPHS = frozenset(
    {
        "cuStreamBeginCapture",
        "cuStreamEndCapture",
        "cuStreamDestroy",
        "cuGraphLaunch",
        "cuGraphInstantiate",
        "cuGraphUpload",
        "cuGraphExecUpdate",
        "cuGraphExecDestroy",
        "cuGraphDestroy",
    }
)
_STREAM_LAST = frozenset(
    {
        "cuMemcpyHtoDAsync",
        "cuMemcpyDtoHAsync",
        "cuMemcpyDtoDAsync",
        "cuMemsetD8Async",
        "cuMemsetD32Async",
    }
)


class WindowGuard:
    """The gate's `guard` while a window is open: called with each driver call before it is made.

    It follows forks: a stream that waits for an event recorded in the capture is in the capture.
    """

    def __init__(self, label: str, stream: int) -> None:
        """Guard the window of the calling thread over `stream`."""
        self.label = label
        self.streams = {stream}
        self._events: set[int] = set()
        self._thread = threading.get_ident()

    def __call__(self, op: str, args: tuple[Any, ...]) -> None:
        """Raise a CaptureRefused that names the user's line, or let the call pass."""
        if threading.get_ident() != self._thread:
            return
        error = self._judge(op, args)
        if error is not None:
            raise open_window.refused(error)
        self._follow(op, args)

    def _judge(self, op: str, args: tuple[Any, ...]) -> CaptureRefused | None:
        if op == "cuLaunchKernelEx":
            function = int(args[1])
            name = gate.function_names.get(function, hex(function))
            return self._on_stream(f"kernel {name}", int(args[0].hStream))
        if op in _STREAM_LAST:
            return self._on_stream(op, int(args[-1]))
        where = open_window.requester()
        said = f"{op} was called in the capture window of {self.label!r}"
        if op in _SYNCS:
            remedy = "read results after the step, outside its body"
            return SyncDuringCapture(f"{said}, where nothing runs to wait for", where, remedy)
        if op in _MEMORY:
            remedy = "take memory before the step, or from the pool inside a primed body"
            return CaptureAllocationError(f"{said}; it would break the capture", where, remedy)
        if op in _MODULES:
            remedy = "ask the library for its kernels before the step"
            return ModuleLoadDuringCapture(f"{said}; a replay would not do it again", where, remedy)
        if op in _GRAPHS:
            remedy = "one window at a time: do it after the step"
            return CaptureRefused(f"{said}, which has to end first", where, remedy)
        return None

    def _on_stream(self, what: str, stream: int) -> CaptureRefused | None:
        if stream in self.streams:
            return None
        streams = ", ".join(map(hex, sorted(self.streams)))
        return CaptureIncomplete(
            f"{what} was sent to stream {stream:#x} in the capture window of {self.label!r}: it "
            f"would run at once and be in no replay (capturing: {streams})",
            open_window.requester(),
            "use the stream that the body is given, or fork from it with an event",
        )

    def _follow(self, op: str, args: tuple[Any, ...]) -> None:
        if op == "cuEventRecord" and int(args[1]) in self.streams:
            self._events.add(int(args[0]))
        elif op == "cuStreamWaitEvent" and int(args[1]) in self._events:
            self.streams.add(int(args[0]))
