"""What happens to captures on the host device, whoever makes them: a C library, cuda.core, we.

    with watch.listening(listener):
        ...

The library tells of each event in the thread that made the call, before the call returns, so that
the listener finds the caller's frames on its own stack. While nobody listens, a driver call pays a
look at a flag.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowgraph.hostdev.build import LIBRARY_NAME

__all__ = ["KINDS", "CaptureEvent", "Listener", "adopt", "apply", "is_told", "listening"]

KINDS = ("begun", "ended", "broken", "refused", "elsewhere", "let through")
"""What can happen. "begun" (what: the mode); "ended" with a code (what: its nodes, a kind and
kernel a line); "broken" by a call that answered `code`; "refused": a call that did no more harm,
such as each one after the break; "elsewhere": work (what) ran on a stream that is in no capture;
"let through": a call that only the capture's mode allows."""


@dataclass(frozen=True)
class CaptureEvent:
    """One event. capture: the driver's number of it. call: the function, without its version.

    stream: of the capture; of "elsewhere" its own. own: by the thread that began the capture.
    """

    kind: str
    call: str
    what: str
    capture: int
    stream: int
    code: int
    own: bool


Listener = Callable[[CaptureEvent], None]


class _Event(ctypes.Structure):
    """`lowgraph_capture_event` of src/control.h."""

    _fields_ = (
        ("kind", ctypes.c_char_p),
        ("call", ctypes.c_char_p),
        ("what", ctypes.c_char_p),
        ("capture", ctypes.c_uint64),
        ("stream", ctypes.c_uint64),
        ("code", ctypes.c_int),
        ("own", ctypes.c_int),
    )


_Entry = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Event))

_listener: Listener | None = None
_library: ctypes.CDLL | None = None


def apply(library: ctypes.CDLL) -> None:
    """Tell a library that was just loaded of who listens."""
    global _library
    library.lowgraph_host_watch_captures.argtypes = [_Entry]
    library.lowgraph_host_watch_captures.restype = None
    _library = library
    if _listener is not None:
        library.lowgraph_host_watch_captures(_told)


def adopt() -> None:
    """Apply to a library that a program of others finds on $LD_LIBRARY_PATH, by itself and later.

    It is loaded now, as the program would with its first driver call. Nothing to do where the path
    has no libcuda, or somebody else's.
    """
    if _library is not None:
        return
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    for folder in filter(None, folders):
        path = Path(folder) / LIBRARY_NAME
        if path.is_file():  # the first one is what the program gets
            if b"lowgraph_host_watch_captures" in path.read_bytes():
                apply(ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL))
            return


def is_told() -> bool:
    """Whether the process has a library that tells of captures."""
    return _library is not None


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell `listener` of all captures in the block, also where the library is loaded in it.

    One listens at a time: an inner block takes the outer one's place. It may call the driver; what
    it raises is printed and changes nothing.
    """
    before = _listener
    _set(listener)
    try:
        yield
    finally:
        _set(before)


def _set(listener: Listener | None) -> None:
    global _listener
    _listener = listener
    if _library is not None:
        _library.lowgraph_host_watch_captures(_Entry() if listener is None else _told)


def _tell(told: Any) -> None:
    listener, event = _listener, told.contents
    if listener is not None:
        words = (event.kind, event.call, event.what)
        kind, call, what = (word.decode(errors="replace") for word in words)
        listener(
            CaptureEvent(kind, call, what, event.capture, event.stream, event.code, bool(event.own))
        )


_told = _Entry(_tell)  # kept: the library holds its address
