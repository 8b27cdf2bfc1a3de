"""The runtime API's last error, at the border to libraries that use it.

A call of the runtime that fails leaves its code behind, in the thread, until somebody asks for it;
code that swallows the failure leaves it to whoever checks for errors next. lowgraph never asks: its
calls answer with codes. But a library of the body's does, and would blame its own good call. So the
code is taken away at the border, and logged, with between which places it came about.

CuPy's wheels have a runtime of their own in each of their parts, which no one else can ask; CuPy
clears it as it raises. Looked at are the shared runtimes that the process has loaded: those of
PyTorch, of C libraries, and of a CuPy that was built against one.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["StaleError", "loaded_runtimes", "take_stale"]

_SONAMES = ("libcudart.so.13", "libcudart.so.12")
_log = logging.getLogger("lowgraph.interop")
_here = threading.local()


@dataclass(frozen=True)
class StaleError:
    """An error that was taken away. runtime: its library; since, until: file:line of the user."""

    code: int
    name: str
    runtime: str
    since: str
    until: str

    def __str__(self) -> str:
        return (
            f"{self.runtime} had a stale error, {self.code} {self.name}, which nobody was told of: "
            f"it came about in this thread between {self.since} and {self.until}, and was taken "
            "away there, to be blamed on no later call"
        )


def loaded_runtimes() -> list[ctypes.CDLL]:
    """The shared CUDA runtimes that the process has loaded already; none is loaded for this."""
    found = []
    for name in _SONAMES:
        try:
            found.append(ctypes.CDLL(name, mode=os.RTLD_NOLOAD))
        except OSError:
            continue
    return found


def take_stale(
    where: str, runtimes: Callable[[], Sequence[Any]] = loaded_runtimes
) -> list[StaleError]:
    """Take the thread's last error from each runtime, log it, and return what was there.

    where: file:line of the user. What stays although it was asked for is no stale error: the
    context is lost, or there is no driver, and every call says so.
    """
    since, _here.looked = getattr(_here, "looked", "the thread's start"), where
    found = []
    for runtime in runtimes():
        code = int(runtime.cudaPeekAtLastError())
        if not code:
            continue
        runtime.cudaGetLastError()
        if int(runtime.cudaPeekAtLastError()) == code:
            continue
        stale = StaleError(code, _name(runtime, code), runtime._name, since, where)
        _log.warning("%s", stale)
        found.append(stale)
    return found


def _name(runtime: Any, code: int) -> str:
    ask = runtime.cudaGetErrorName
    ask.restype = ctypes.c_char_p
    return (ask(code) or b"").decode(errors="replace")
