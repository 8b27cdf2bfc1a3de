"""Driver calls by name and CUDA version: their form differs between the releases of the bindings.

A call made so is the driver's own: the same bytes go in and out whatever bindings are installed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from cuda.bindings import driver as cu

from tests.traces.world import attempt

LACKED = -1  # what `attempt` gives too where a driver has no such call


@cache
def _found(name: str, version: int) -> Callable[..., int] | None:
    code, answer = attempt(cu.cuGetProcAddress, name.encode(), version, 0)
    address = int(answer[0]) if code == 0 else 0
    return ctypes.CFUNCTYPE(ctypes.c_int)(address) if address else None


def call(name: str, version: int, *arguments: Any) -> int:
    """The code of the call; LACKED where the driver has none of that name and version.

    The arguments are ctypes values, or integers that stand for an `int` or a flag of 32 bits.
    """
    function = _found(name, version)
    return LACKED if function is None else int(function(*arguments))


def pointer(value: Any) -> ctypes.c_void_p:
    """A handle or an address as an argument."""
    return ctypes.c_void_p(int(value))


def size(value: int) -> ctypes.c_size_t:
    """A size or a 64-bit number as an argument."""
    return ctypes.c_size_t(value)
