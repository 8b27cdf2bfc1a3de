"""The stream of a body's block as CuPy's current stream, and what has no place on it in a window.

CuPy keeps the current stream by thread and device, and beside it a stack for its `with` blocks,
whose top becomes current where one ends. So the stream is pushed, or a `with` of the body's own
would come back to another one; and what was current before is put back by name, or a stream that
was chosen by `use()`, which is not on the stack, would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from lowgraph.capture import HostCall
from lowgraph.errors import CaptureRefused, SyncDuringCapture
from lowgraph.memory import open_window

__all__ = ["current_stream"]


@contextmanager
def current_stream(cupy: Any, handle: int, ordinal: int) -> Iterator[Any]:
    """Make a stream CuPy's current one, in this thread, until the block ends; yields it.

    Then the one from before is current again, however the block ended.
    """
    before = cupy.cuda.get_current_stream(ordinal)
    ours = _stream_class(cupy.cuda.ExternalStream)(handle, ordinal)
    ours.__enter__()
    try:
        yield ours
    finally:
        ours.__exit__(None, None, None)
        if cupy.cuda.get_current_stream(ordinal) is not before:
            before.use()


@cache
def _stream_class(external: Any) -> Callable[[int, int], Any]:
    """CuPy's class for streams of others, with what a window refuses."""
    return type("BodyStream", (_BodyStream, external), {"_external": external})


class _BodyStream:
    """See the module. What it overrides is, outside of windows, as CuPy has it.

    A function for the host becomes a HostCall: CuPy keeps it for captures of its own only.
    """

    _external: Any
    ptr: int

    def __init__(self, handle: int, ordinal: int) -> None:
        # Past ExternalStream's own, which does no more than warn that there is a newer way.
        parent: Any = super(self._external, self)
        parent.__init__(handle, ordinal)

    def synchronize(self) -> None:
        """Wait for the stream."""
        _refuse_wait("synchronize() of its stream")
        parent: Any = super()
        parent.synchronize()

    @property
    def done(self) -> bool:
        """Whether its work is done."""
        _refuse_wait("its stream was asked whether it is done")
        parent: Any = super()
        return bool(parent.done)

    def launch_host_func(self, callback: Callable[[Any], object], arg: Any) -> None:
        """Call `callback(arg)` behind the stream's work; in a window, at each replay."""
        name = getattr(callback, "__name__", type(callback).__name__)
        HostCall(partial(callback, arg), name).enqueue(self.ptr)

    def add_callback(self, callback: Callable[..., object], arg: Any) -> None:
        """Call a function with the stream's status."""
        _refuse("add_callback, which no graph can hold", "use launch_host_func, or HostCall")
        parent: Any = super()
        parent.add_callback(callback, arg)

    def begin_capture(self, mode: Any = None) -> None:
        """Begin a capture."""
        _refuse("begin_capture, on a stream that captures", "leave that to the step")
        parent: Any = super()
        parent.begin_capture(mode)

    def end_capture(self) -> Any:
        """End a capture."""
        _refuse("end_capture, of a capture that is the step's", "leave that to the step")
        parent: Any = super()
        return parent.end_capture()


def _refuse_wait(what: str) -> None:
    told = what, "read results after the step, outside its body"
    _refuse(*told, kind=SyncDuringCapture)


def _refuse(what: str, remedy: str, kind: type[CaptureRefused] = CaptureRefused) -> None:
    window = open_window.mine()
    if window is None:
        return
    said = f"CuPy in the capture window of {window.label!r}: {what}"
    raise open_window.refused(kind(said, open_window.requester(), remedy))
