"""The captures that are open in this process, and the lock that they share with frees.

`LOCK` is held around begin-capture, frees, destroys and module unloads, and for the whole life of a
window: a free that lands in a capture may break it (900), and one between a begin and the first
node always would. Who waits for it longer than `LOCK.patience` seconds while one and the same
window is open is told whose window that is (CaptureInProgress): a body that waits for the thread
that waits for it would otherwise hang for good.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

from lowgraph.driver import forked
from lowgraph.driver.callers import requester
from lowgraph.errors import CaptureInProgress, CaptureRefused
from lowgraph.stages import current

__all__ = [
    "LOCK",
    "UNSAFE",
    "CaptureLock",
    "OpenCapture",
    "Recorder",
    "add",
    "describe",
    "in_flight",
    "in_progress",
    "is_relaxed",
    "note_begin",
    "recorder",
    "refused",
    "relaxed_thread",
    "remove",
    "set_recorder",
    "set_window",
    "stepping_aside",
    "window",
]

UNSAFE = frozenset(
    {
        "cuCtxSynchronize",
        "cuStreamSynchronize",
        "cuStreamQuery",
        "cuStreamDestroy",
        "cuEventSynchronize",
        "cuEventQuery",
        "cuEventDestroy",
        "cuMemAlloc",
        "cuMemFree",
        "cuMemFreeAsync",
        "cuMemHostAlloc",
        "cuMemFreeHost",
        "cuMemHostRegister",
        "cuMemHostUnregister",
        "cuMemPoolTrimTo",
        "cuCtxSetLimit",
        "cuGraphInstantiate",
        "cuGraphInstantiateWithParams",
    }
)
"""Calls that can break a capture from another thread, in one mode or another (facts)."""

in_flight: dict[int, tuple[str, tuple[Any, ...]]] = {}
"""The unsafe call that each thread (by its number) is making: the gate notes it before it asks the
guard, so that a window, once its guard stands, sees the calls that were already let through."""


class Recorder(Protocol):
    """What a running pass is told by the layers below it: its journal."""

    def library_call(
        self,
        name: str,
        kernels: int | None,
        addresses: tuple[int, ...],
        scalars: tuple[tuple[str, Any], ...] = (),
        nodes: tuple[int, ...] = (),
        stream: int | None = None,
    ) -> None:
        """A foreign library was called; it added `kernels` kernel nodes, None if not known.

        addresses: device memory that those kernels use. scalars: arguments by value, by name.
        nodes: handles of all that it added to the capture, () where that is not known. stream:
        that it was given.
        """

    def sized(self, kind: str, name: str, sizes: tuple[object, ...], address: int = 0) -> None:
        """A "slice" of the pool was taken (sizes: bytes), or a "product" asked for (m, n, k ...).

        sizes: what has to be the same in the pass that primes and the one that is recorded.
        address: of the slice.
        """

    def refuse(self, error: CaptureRefused) -> None:
        """A request was refused; remember it, in case the body swallows the exception."""

    def is_mine(self) -> bool:
        """Whether the calling thread runs the pass: calls of others are no part of it."""

    def before_window(self, act: Callable[[int], None]) -> None:
        """Have `act` called with the stream before a window over this pass begins, in its thread.

        For what would break the capture. One that equals another is called once.
        """

    placed: tuple[int, bool]
    """What `place` was told last; (0, False) to begin with."""

    def place(self, body: int, aside: bool) -> None:
        """From now on calls go into that body of a conditional, 0: into none.

        aside: launches are such as only this kind of pass makes: a recorded loop is steered by
        kernels, an unrecorded one runs its body several times.
        """


@dataclass
class OpenCapture:
    """A capture that is open: label, origin stream's handle, where it began, by which thread.

    mode: "thread_local", "global" or "relaxed". since: time.monotonic() of the begin, in seconds.
    undo: for a window's graph to call when it is closed, or when there will be none.
    bodies: what a window keeps of its conditionals (capture.bodies.Bodies).
    """

    label: str
    stream: int
    began_at: str
    mode: str = "thread_local"
    thread: threading.Thread = field(default_factory=threading.current_thread)
    since: float = field(default_factory=time.monotonic)
    undo: list[Callable[[], None]] = field(default_factory=list)
    bodies: object = None

    def text(self) -> str:
        """The capture's label, stream, thread, place and age."""
        age = 1e3 * (time.monotonic() - self.since)
        return (
            f"the capture of {self.label!r} on stream {self.stream:#x}, begun {age:.0f} ms ago by "
            f"thread {self.thread.name!r} at {self.began_at}"
        )


_open: dict[int, OpenCapture] = {}
_window: OpenCapture | None = None
_recorder: Recorder | None = None
_relaxed: set[int] = set()


# ---- which captures are open ----


def add(capture: OpenCapture) -> None:
    """A capture is about to begin, or has begun, on `capture.stream`."""
    _open[capture.stream] = capture


def note_begin(stream: int, mode: str) -> None:
    """A capture began outside any window, by a bare call."""
    if stream not in _open:
        add(OpenCapture(f"stream {stream:#x}", stream, requester(), mode))


def remove(stream: int) -> None:
    """The capture of `stream` is over; nothing to do if none was known."""
    _open.pop(stream, None)


def describe() -> str:
    """Every open capture in words; "no capture that lowgraph began is open" if there is none."""
    found = [capture.text() for capture in list(_open.values())]
    return "; ".join(found) if found else "no capture that lowgraph began is open"


def window() -> OpenCapture | None:
    """The window that is open in this process, or None: there is one at a time."""
    return _window


def set_window(capture: OpenCapture | None) -> None:
    """Make a capture the open window, or None. The caller holds LOCK."""
    global _window
    if _window is not None:
        remove(_window.stream)
    _window = capture
    if capture is not None:
        add(capture)


def in_progress(what: str, capture: OpenCapture, waited: float = 0.0) -> CaptureInProgress:
    """The refusal of a call that another thread's open capture has no place for."""
    tried = f"; gave up after {waited:g} s" if waited else ""
    error = CaptureInProgress(
        f"{requester()}: {what} in thread {threading.current_thread().name!r} has no place beside "
        f"{capture.text()}{tried}. Do it before or after the step; a body may not wait for a "
        "thread that does it"
    )
    error.label, error.thread = capture.label, capture.thread.name
    error.since = capture.began_at
    return error


# ---- what a window is told ----


def recorder() -> Recorder | None:
    """The journal of the pass that is running, or None."""
    return _recorder


def set_recorder(recorder: Recorder | None) -> None:
    """Name the journal that the layers below report to."""
    global _recorder
    _recorder = recorder


def refused(error: CaptureRefused) -> CaptureRefused:
    """Tell the running pass of a refusal, and it of the present stage; returns it, to be raised."""
    error.stage = error.stage or current()
    told = _recorder  # looked at once: another thread's pass may end meanwhile
    if told is not None:
        told.refuse(error)
    return error


# ---- threads that chose the relaxed mode ----


@contextmanager
def relaxed_thread() -> Iterator[None]:
    """Note that the calling thread is in the relaxed capture mode; see `stream.relaxed`."""
    thread = threading.get_ident()
    nested = thread in _relaxed
    _relaxed.add(thread)
    try:
        yield
    finally:
        if not nested:
            _relaxed.discard(thread)


def is_relaxed(thread: int) -> bool:
    """Whether a thread, by its number, is inside `stream.relaxed()`."""
    return thread in _relaxed


@contextmanager
def stepping_aside() -> Iterator[None]:
    """The calling thread's unsafe call is not in flight while it waits for a window."""
    thread = threading.get_ident()
    call = in_flight.pop(thread, None)
    try:
        yield
    finally:
        if call is not None:
            in_flight[thread] = call


# ---- the lock ----


class CaptureLock:
    """A re-entrant lock whose waiters are not left in the dark; see the module.

    patience: seconds to wait for one window before CaptureInProgress.
    """

    def __init__(self, patience: float = 30.0) -> None:
        self.patience = patience
        self._lock = forked.rlock()

    def acquire(self, what: str = "a call that takes or gives memory or handles") -> None:
        """Take the lock. Raises CaptureInProgress when one window outlasts the patience.

        A priming pass or a destroy holds it too, but ends by itself: those are waited out.
        """
        forked.check()
        if self._lock.acquire(blocking=False):
            return
        while True:
            seen = _window
            if self._lock.acquire(timeout=self.patience):
                return
            if seen is not None and seen is _window:
                raise in_progress(what, seen, self.patience)

    def attempt(self, seconds: float = 0.0) -> bool:
        """Take the lock if it can be had within so many seconds; returns whether it was."""
        forked.check()
        return bool(self._lock.acquire(timeout=seconds))

    def release(self) -> None:
        """Give the lock back."""
        self._lock.release()

    def __enter__(self) -> CaptureLock:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()


LOCK = CaptureLock()
