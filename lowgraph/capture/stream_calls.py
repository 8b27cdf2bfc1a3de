"""Which argument of a driver call is the stream that it sends work to, and what else it names.

Tables by the driver's function names, for the guard and for the bookkeeping of forks.
"""

from __future__ import annotations

from typing import Any

from lowgraph.driver import gate

__all__ = ["AT_ONCE", "HOST_ADDRESSES", "described", "event_of", "stream_of"]

_LAUNCH_EX = "cuLaunchKernelEx"
_FUNCTION_AT = {_LAUNCH_EX: 1, "cuLaunchKernel": 0, "cuLaunchCooperativeKernel": 0}
_STREAM_AT = {
    "cuLaunchKernel": 8,
    "cuLaunchCooperativeKernel": 8,
    "cuLaunchHostFunc": 0,
    "cuStreamWriteValue32": 0,
    "cuStreamWriteValue64": 0,
    "cuStreamWaitValue32": 0,
    "cuStreamWaitValue64": 0,
    "cuStreamBatchMemOp": 0,
    **dict.fromkeys(
        (
            "cuMemcpyAsync",
            "cuMemcpyHtoDAsync",
            "cuMemcpyDtoHAsync",
            "cuMemcpyDtoDAsync",
            "cuMemcpyPeerAsync",
            "cuMemcpy2DAsync",
            "cuMemcpy3DAsync",
            "cuMemsetD8Async",
            "cuMemsetD16Async",
            "cuMemsetD32Async",
            "cuMemsetD2D8Async",
            "cuMemsetD2D16Async",
            "cuMemsetD2D32Async",
            "cuMemPrefetchAsync",
        ),
        -1,
    ),
}

AT_ONCE = frozenset(
    {
        "cuMemcpy",
        "cuMemcpyHtoD",
        "cuMemcpyDtoH",
        "cuMemcpyDtoD",
        "cuMemcpyPeer",
        "cuMemcpy2D",
        "cuMemcpy2DUnaligned",
        "cuMemcpy3D",
        "cuMemsetD8",
        "cuMemsetD16",
        "cuMemsetD32",
        "cuMemsetD2D8",
        "cuMemsetD2D16",
        "cuMemsetD2D32",
    }
)
"""Calls that do their work on the legacy stream at once, capture or not, and say nothing."""

HOST_ADDRESSES = {
    "cuMemcpyHtoDAsync": (1,),
    "cuMemcpyDtoHAsync": (0,),
    "cuMemcpyAsync": (0, 1),
}
"""Arguments that may be host addresses; the byte count stands third."""

_EVENT_AT = {"cuEventSynchronize": 0, "cuEventQuery": 0, "cuEventDestroy": 0}


def stream_of(op: str, args: tuple[Any, ...]) -> int | None:
    """Handle of the stream that a call sends work to; None for calls that send none."""
    if op == _LAUNCH_EX:
        return int(args[0].hStream)
    place = _STREAM_AT.get(op)
    return None if place is None else int(args[place])


def event_of(op: str, args: tuple[Any, ...]) -> int | None:
    """Handle of the event that a call waits for, asks after or destroys; None for others."""
    place = _EVENT_AT.get(op)
    return None if place is None else int(args[place])


def described(op: str, args: tuple[Any, ...]) -> str:
    """The call in two words: "kernel NAME" for a launch, else the function's name."""
    place = _FUNCTION_AT.get(op)
    if place is None:
        return op
    function = int(args[place])
    return f"kernel {gate.function_names.get(function, hex(function))}"
