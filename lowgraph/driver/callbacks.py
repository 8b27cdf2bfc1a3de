"""Host functions of streams and graphs, in Python: what runs now, and what has failed.

The driver calls one C function, which lives as long as the process, with a number; the number
finds the Python function in a table. So no node ever points at an object that can be released: a
number that is not in the table any more does nothing.

The driver's thread takes the GIL for the call, which is why no thread may enter the driver with it:
the bindings and ctypes both release it. While a function runs, its thread makes no driver call:
the gate refuses (`running`), because the driver would deadlock. Calls that do not pass the gate,
as those of another library, cannot be seen.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from itertools import count

from lowgraph.driver import forked
from lowgraph.driver.poison import shut
from lowgraph.errors import CudaInHostCallback, HostCallbackError

__all__ = ["ADDRESS", "Callback", "pending", "raise_pending", "register", "release", "running"]

_KEPT = 32  # failures of a stream: each holds frames, and a failing function fails at each replay


class Callback:
    """A Python function that a stream calls: once, or at each replay of the graph that holds it.

    stream: whose steps are told of failures. runs: how often it was called.
    """

    def __init__(self, function: Callable[[], object], name: str, stream: int, once: bool) -> None:
        """Describe it; `register` makes it callable."""
        self.function = function
        self.name = name
        self.stream = stream
        self.once = once
        self.runs = 0

    @property
    def replay(self) -> int:
        """The replay that runs, from 1; 0 for a call outside of a graph."""
        return 0 if self.once else self.runs


running: dict[int, Callback] = {}
"""What each thread (by its number) runs now: the gate lets none of them through."""

pending: dict[int, list[HostCallbackError]] = {}
"""Failures that nobody was told of yet, by stream; no key without one."""

_table: dict[int, Callback] = {}
_numbers = count(1)
_lock = forked.lock()  # of `pending`; held for no call of anybody


def register(callback: Callback) -> int:
    """Keep it callable until `release`, or until it ran once; returns its number."""
    number = next(_numbers)
    _table[number] = callback
    return number


def release(number: int) -> None:
    """Let go of it. Idempotent. A call that still comes does nothing."""
    _table.pop(number, None)


def refuse(call: str) -> None:
    """Raise CudaInHostCallback if the calling thread runs a host function."""
    callback = running.get(threading.get_ident())
    if callback is not None:
        what = f"{call} was not sent; launch what depends on the host from the step, not from here"
        raise CudaInHostCallback(callback.name, callback.replay, what)


def raise_pending(stream: int) -> None:
    """Raise the oldest failure of the stream's host calls that was not raised yet, if any.

    Raises HostCallbackError, its cause what the function raised; CudaInHostCallback as it was.
    """
    with _lock:
        failures = pending.get(stream)
        if not failures:
            return
        oldest = failures.pop(0)
        if not failures:
            del pending[stream]
    raise oldest


def _called(number: int | None) -> None:
    callback = _table.get(number or 0)
    if callback is None:
        return
    thread = threading.get_ident()
    running[thread] = callback
    shut.add(thread)
    callback.runs += 1
    try:
        callback.function()
    except BaseException as error:  # nothing may leave into the driver's thread
        _note(callback, error)
    finally:
        if callback.once:  # while the gate is still shut: what goes with it makes no driver call
            release(number or 0)
            callback.function = _nothing
        shut.discard(thread)
        running.pop(thread, None)


def _nothing() -> None:
    """What is left of a function that was let go."""


def _note(callback: Callback, error: BaseException) -> None:
    if isinstance(error, CudaInHostCallback):
        failure: HostCallbackError = error
    else:
        what = f"{type(error).__name__}: {error}"
        failure = HostCallbackError(callback.name, callback.replay, what)
        failure.__cause__ = error
    with _lock:
        failures = pending.setdefault(callback.stream, [])
        if len(failures) < _KEPT:
            failures.append(failure)
        else:
            failures[-1].dropped += 1


_TRAMPOLINE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_called)
ADDRESS = int(ctypes.cast(_TRAMPOLINE, ctypes.c_void_p).value or 0)
"""The C function for the driver; the user data is a callback's number."""
