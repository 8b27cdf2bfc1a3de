"""What only the host device can do: count calls, fail them on demand, guard and name slices.

Nothing here is a driver call, so nothing here is counted. The library must be loaded
(`lowgraph.hostdev.load()`); these functions load it if it is not.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from functools import lru_cache
from typing import Any

from lowgraph import hostdev
from lowgraph.errors import ConfigError

__all__ = [
    "FREE",
    "GONE",
    "LIVE",
    "all_calls",
    "annotate",
    "calls",
    "fail",
    "fault_text",
    "findings_text",
    "finish",
    "forget_findings",
    "launches_checked",
    "mark_written",
    "reset_calls",
    "set_blocking",
    "set_memory",
    "set_workers",
    "tallied",
    "tally",
    "unchecked_text",
]

GONE, FREE, LIVE = 0, 1, 2  # states of a slice


def calls(name: str) -> int:
    """Return how often a driver call was made since the start or `reset_calls()`.

    name: without a version, "cuMemAlloc": all versions of a call count together. Calls that the
    driver refused count too.
    """
    return int(_library().lowgraph_host_calls(name.encode()))


def all_calls() -> dict[str, int]:
    """Return the count of every call made, by name."""
    names = _text("lowgraph_host_call_names").split()
    return {name: calls(name) for name in names}


def tally(on: bool) -> None:
    """Count calls by thread from now on, or no more. Pairs nest."""
    # It has an answer for Python's threads alone, and needs no GIL.
    mark = ctypes.cast(ctypes.pythonapi.PyGILState_GetThisThreadState, ctypes.c_void_p)
    _library().lowgraph_host_tally(int(on), mark)


def tallied() -> tuple[Counter[tuple[int, str]], set[int]]:
    """Return the calls since the outermost `tally(True)`, by native thread id and name.

    And those of the threads that were Python's when they called.
    """
    calls, python = Counter[tuple[int, str]](), set[int]()
    for line in _text("lowgraph_host_tallied").splitlines():
        thread, mark, name, made = line.split()
        calls[int(thread), name] = int(made)
        if mark == "1":
            python.add(int(thread))
    return calls, python


def reset_calls() -> None:
    """Set all counts to 0; planned failures stay."""
    _library().lowgraph_host_reset_calls()


def fail(name: str, nth: int, code: int) -> None:
    """Let the nth call of `name` from now (1: the next one) return `code` and do nothing else.

    One failure a name: a second plan replaces the first. nth = 0 takes the plan back. Only that one
    call is affected: a code like 700 does not become sticky.
    """
    if nth < 0:
        raise ConfigError(f"fail({name!r}): nth is {nth}, must be 0 or more")
    _library().lowgraph_host_fail(name.encode(), nth, code)


def set_memory(nbytes: int) -> None:
    """Set the size of the device's memory in bytes; what is allocated already stays."""
    if nbytes < 0:
        raise ConfigError(f"set_memory: {nbytes} bytes, must be 0 or more")
    _library().lowgraph_host_set_memory(nbytes)


def set_blocking(blocking: bool) -> None:
    """True: every call that issues work returns after the work is done, with its fault if any."""
    _library().lowgraph_host_set_blocking(int(blocking))


def set_workers(count: int) -> None:
    """Set the threads that run a kernel's blocks (0: one a core); waits for work in flight."""
    if count < 0:
        raise ConfigError(f"set_workers: {count}, must be 0 (one a core) or more")
    _library().lowgraph_host_set_workers(count)


def fault_text() -> str:
    """Return what broke the context (kernel, block, thread, address by name); "" if nothing did."""
    return _text("lowgraph_host_fault")


def findings_text() -> str:
    """Return what the check build found, a JSON object a line (hostdev.check reads it)."""
    return _text("lowgraph_host_findings")


def unchecked_text() -> str:
    """Return the launches of kernels without checks, a JSON object a line (hostdev.check)."""
    return _text("lowgraph_host_unchecked")


def finish() -> None:
    """Wait for all work in flight; unlike a driver call, without an error if some of it failed."""
    _library().lowgraph_host_finish()


def forget_findings() -> None:
    """Empty the list of findings."""
    _library().lowgraph_host_forget_findings()


def launches_checked() -> int:
    """Return how many launches ran in the check build."""
    return int(_library().lowgraph_host_launches_checked())


def mark_written(address: int, nbytes: int) -> None:
    """Take device memory for initialised, in the check build: the host writes it by itself."""
    _library().lowgraph_host_mark_written(address, nbytes)


def annotate(address: int, nbytes: int, state: int, name: str) -> None:
    """Tell the state of a part of device memory, from now on in the order of the issued work.

    LIVE: named in faults; the bytes behind it, up to the next 256-byte boundary or slice, are
    guarded. FREE: filled with 0xFF bytes (NaN) and refused. GONE: forgotten. A part replaces those
    that it overlaps. Work issued before the call still sees the state before.
    Raises ConfigError for a range that is not inside one live allocation (GONE: ignored).
    """
    code = _library().lowgraph_host_annotate(address, nbytes, state, name.encode())
    if code != 0 and state != GONE:
        raise ConfigError(
            f"annotate({name!r}): {nbytes} bytes at {address:#x} are not inside one live allocation"
        )


def _text(function: str) -> str:
    get = getattr(_library(), function)
    size = get(None, 0)
    while True:  # it may grow between the calls
        buffer = ctypes.create_string_buffer(size)
        needed = get(buffer, size)
        if needed <= size:
            return buffer.value.decode(errors="replace")
        size = needed


def _library() -> ctypes.CDLL:
    return _declared(hostdev.load())


@lru_cache
def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    u64, size_t, text, integer = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_int
    declarations: dict[str, tuple[Any, list[Any]]] = {
        "lowgraph_host_calls": (u64, [text]),
        "lowgraph_host_call_names": (size_t, [text, size_t]),
        "lowgraph_host_reset_calls": (None, []),
        "lowgraph_host_tally": (None, [integer, ctypes.c_void_p]),
        "lowgraph_host_tallied": (size_t, [text, size_t]),
        "lowgraph_host_fail": (None, [text, u64, integer]),
        "lowgraph_host_set_memory": (None, [u64]),
        "lowgraph_host_set_blocking": (None, [integer]),
        "lowgraph_host_set_workers": (None, [integer]),
        "lowgraph_host_fault": (size_t, [text, size_t]),
        "lowgraph_host_findings": (size_t, [text, size_t]),
        "lowgraph_host_unchecked": (size_t, [text, size_t]),
        "lowgraph_host_finish": (None, []),
        "lowgraph_host_forget_findings": (None, []),
        "lowgraph_host_launches_checked": (u64, []),
        "lowgraph_host_mark_written": (None, [u64, u64]),
        "lowgraph_host_annotate": (integer, [u64, u64, integer, text]),
    }
    for name, (result, arguments) in declarations.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library
