"""Driver calls counted by CUPTI, NVIDIA's profiling interface: below lowgraph and every library.

CUPTI calls back on each entry of a driver function. Its library comes with the CUDA toolkit and as
a pip package. One subscriber a process is all that it allows, so that it cannot be had under
another profiler.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import threading
from collections import Counter
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

__all__ = ["CallCount", "count_calls"]

_DRIVER_API = 1  # CUPTI_CB_DOMAIN_DRIVER_API
_ENTER = 0  # CUPTI_API_ENTER
# cuMemAlloc_v2, cuGraphLaunch_ptsz: one call by several names.
_VARIANT = re.compile(r"(_v\d+|_ptsz|_ptds)+$")


@dataclass
class CallCount:
    """Driver calls by name, without a version, once the counting has ended.

    counted_by: what counted them; "" where nothing could, and the rest means nothing.
    by_thread: by native thread id (threading.get_native_id) and name. python: those of the threads
    that were Python's when they called, which may have ended since.
    """

    counted_by: str
    by_thread: Counter[tuple[int, str]] = field(default_factory=Counter)
    python: set[int] = field(default_factory=set)

    @property
    def calls(self) -> dict[str, int]:
        """Of all threads."""
        return dict(self._outside(set()))

    def of_c_code(self, caller: int) -> Counter[str]:
        """Of thread `caller`, which called the C code, and of threads that are not Python's."""
        return self._outside(self.python - {caller})

    def _outside(self, threads: Container[int]) -> Counter[str]:
        found = Counter[str]()
        for (thread, name), calls in self.by_thread.items():
            if thread not in threads:
                found[name] += calls
        return found


class CallbackData(ctypes.Structure):
    """The front of CUpti_CallbackData, which is all that is read."""

    _fields_ = (("site", ctypes.c_int), ("function", ctypes.c_char_p))


Callback = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(CallbackData)
)


_running: dict[int, tuple[CallCount, threading.Lock]] = {}
_numbers = itertools.count(1)


def _on_call(number: int | None, _domain: int, _call: int, data: Any) -> None:
    found = _running.get(number or 0)
    if found is None or data.contents.site != _ENTER:
        return
    count, adding = found
    name = _VARIANT.sub("", data.contents.function.decode())
    thread = threading.get_native_id()  # called in the thread itself
    with adding:
        count.by_thread[thread, name] += 1
    if any(one.ident == threading.get_ident() for one in threading.enumerate()):
        count.python.add(thread)


# One for as long as the process lives: a thread that waits for the interpreter's lock on its way
# into it is not waited for by cuptiUnsubscribe, and ended in the freed code of a callback that had
# lived no longer than its block. The number says whose call it is; late ones are nobody's.
_CALLBACK = Callback(_on_call)


def _load() -> Any:
    try:
        return ctypes.CDLL(load_nvidia_dynamic_lib("cupti").abs_path)
    except (DynamicLibNotFoundError, ValueError, OSError):
        # ValueError: a release of pathfinder that does not know CUPTI.
        return None


@contextmanager
def count_calls(load: Callable[[], Any] = _load) -> Iterator[CallCount]:
    """Count the driver calls of a `with` block, of all threads.

    load: gives CUPTI's library, or None. `counted_by` is "" where CUPTI is not there or refuses.
    """
    library = load()
    count, number = CallCount(""), next(_numbers)
    if library is None:
        yield count
        return
    subscriber = ctypes.c_void_p()
    if library.cuptiSubscribe(ctypes.byref(subscriber), _CALLBACK, ctypes.c_void_p(number)):
        yield count
        return
    _running[number] = count, threading.Lock()
    try:
        if not library.cuptiEnableDomain(ctypes.c_uint32(1), subscriber, _DRIVER_API):
            count.counted_by = "CUPTI"
        yield count
    finally:
        library.cuptiUnsubscribe(subscriber)
        del _running[number]
