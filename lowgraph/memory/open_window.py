"""The open capture window as pool and ops see it: `lowgraph.driver.captures` has the registry.

While a window is open no memory may be given back to the driver, no module unloaded and no second
capture begun, by any thread: the re-entrant capture lock is held for the window's whole life. A
thread other than the window's that wants pool memory meanwhile waits for the window's end.
"""

from __future__ import annotations

import threading

from lowgraph.driver.callers import raised_at, requester
from lowgraph.driver.captures import (
    LOCK,
    OpenCapture,
    Recorder,
    recorder,
    refused,
    set_recorder,
    set_window,
)
from lowgraph.driver.captures import window as current

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

OpenWindow = OpenCapture


def mine() -> OpenWindow | None:
    """The open window if the calling thread opened it, else None."""
    window = current()
    if window is not None and window.thread is threading.current_thread():
        return window
    return None


def declare(window: OpenWindow) -> None:
    """Make `window` the open one. The caller holds LOCK until `clear()`."""
    set_window(window)


def clear() -> None:
    """No window is open any more."""
    set_window(None)
