"""What the whole process must know about an open capture window, and the lock that guards it.

While a window is open no memory may be given back to the driver, no module unloaded and no second
capture begun, by any thread: the gate's re-entrant `teardown_lock` is held for the window's whole
life. A thread other than the window's that wants pool memory meanwhile waits for the window's end.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Protocol

from lowgraph.driver.gate import teardown_lock as LOCK
from lowgraph.errors import CaptureRefused

__all__ = [
    "LOCK",
    "OpenWindow",
    "Recorder",
    "clear",
    "current",
    "declare",
    "mine",
    "raised_at",
    "recorder",
    "refused",
    "requester",
    "set_recorder",
]

_PACKAGE = Path(__file__).parents[1]  # as code objects name it: symbolic links stay
# Frames of these are ours; the first frame outside them is where the user's code asked.
_MACHINERY = tuple(
    f"{_PACKAGE}/{name}"
    for name in ("driver/", "kernels/", "memory/", "capture/", "hostdev/", "ops/", "blas.py",
                 "interop.py", "counters.py")
)  # fmt: skip
_PLUMBING = ("/contextlib.py", "/functools.py")


class Recorder(Protocol):
    """What a running pass is told by the layers below it: its journal."""

    def library_call(self, name: str, kernels: int | None, addresses: tuple[int, ...]) -> None:
        """A foreign library was called; it added `kernels` kernel nodes, None if not known.

        addresses: device memory that those kernels use.
        """

    def refuse(self, error: CaptureRefused) -> None:
        """A request was refused; remember it, in case the body swallows the exception."""


@dataclass
class OpenWindow:
    """The capture window that is open: its label, stream handle, thread, and where it began."""

    label: str
    stream: int
    began_at: str
    thread: threading.Thread = field(default_factory=threading.current_thread)


_current: OpenWindow | None = None
_recorder: Recorder | None = None


def current() -> OpenWindow | None:
    """The window that is open in this process, or None."""
    return _current


def mine() -> OpenWindow | None:
    """The open window if the calling thread opened it, else None."""
    window = _current
    if window is not None and window.thread is threading.current_thread():
        return window
    return None


def declare(window: OpenWindow) -> None:
    """Make `window` the open one. The caller holds LOCK until `clear()`."""
    global _current
    _current = window


def clear() -> None:
    """No window is open any more."""
    global _current
    _current = None


def recorder() -> Recorder | None:
    """The journal of the pass that is running, or None."""
    return _recorder


def set_recorder(recorder: Recorder | None) -> None:
    """Name the journal that the layers below report to."""
    global _recorder
    _recorder = recorder


def refused(error: CaptureRefused) -> CaptureRefused:
    """Tell the running pass of a refusal; returns it, to be raised."""
    if _recorder is not None:
        _recorder.refuse(error)
    return error


def _is_ours(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return name.startswith(_MACHINERY) or name.endswith(_PLUMBING)


def raised_at(error: BaseException) -> str | None:
    """file:line of the user's frame that an exception came through last; None if none did."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        if not _is_ours(trace.tb_frame):
            found = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def requester(depth: int = 1) -> str:
    """file:line of the nearest frame outside lowgraph's machinery: where the user's code asked."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
    if frame is None:
        return "<unknown>"
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
