"""The libraries behind CuPy (cuBLAS and the like): what they make at their first use, and when.

CuPy refuses to record calls of them, before the driver is asked, but makes a library's handle
before that; in a window the handle breaks the capture. So the handle has to be there, and CuPy
loads its part for a library where it is first used: what is not loaded is in nobody's use, costs
nothing, and is refused in a window as it would be loaded (`first_use_refused`); of what is loaded,
the thread that opens a window has its handle before (`Preparation`).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from lowgraph import driver
from lowgraph.errors import ContextPoisoned, LibraryNotReady
from lowgraph.memory import open_window

__all__ = ["BLAS", "ELSEWHERE", "RANDOM", "Preparation", "first_use_refused"]

BLAS = (
    "multiply with lowgraph.Blas over the same slices, prepared before the step; sums of products, "
    "as of cupy.multiply and sum, and products of integers CuPy records"
)
RANDOM = "draw with lowgraph.ops' random state, or before the step into an array that is an Input"
ELSEWHERE = "do it before or after the step, into an array that is declared as an Input"

_log = logging.getLogger("lowgraph.interop")


class _Library(NamedTuple):
    """remedy: what to use instead. ready: makes what the calling thread needs, if it is not there.

    Each is one that CuPy makes at first use, too; None where there is no one thing to make.
    """

    name: str
    remedy: str
    ready: Callable[[Any], object] | None


# By the module in which CuPy wraps it.
_LIBRARIES = {
    "cupy_backends.cuda.libs.cublas": _Library(
        "cuBLAS", BLAS, lambda cupy: cupy.cuda.get_cublas_handle()
    ),
    "cupy_backends.cuda.libs.cusolver": _Library(
        "cuSOLVER", ELSEWHERE, lambda cupy: cupy.cuda.device.get_cusolver_handle()
    ),
    "cupy_backends.cuda.libs.cusparse": _Library(
        "cuSPARSE", ELSEWHERE, lambda cupy: cupy.cuda.device.get_cusparse_handle()
    ),
    "cupy_backends.cuda.libs.curand": _Library(
        "cuRAND", RANDOM, lambda cupy: cupy.random.get_random_state()
    ),
    "cupy.cuda.cufft": _Library("cuFFT", ELSEWHERE, None),
}


@dataclass(frozen=True)
class Preparation:
    """Called before a window begins, with its stream, in its thread: what would break its capture.

    cupy: the module. Waits for the stream, and for CuPy's current one: behind the copies of host
    arrays that were sent there CuPy keeps events, which it asks before the next such copy.
    """

    cupy: Any

    def __call__(self, stream: int) -> None:
        """A failure is logged and no more: the window may need nothing of it."""
        self._try("its copies", lambda: self._see_copies_off(stream))
        for module, library in _LIBRARIES.items():
            if module in sys.modules and library.ready is not None:
                self._try(library.name, partial(library.ready, self.cupy))

    def _see_copies_off(self, stream: int) -> None:
        for each in {stream, int(self.cupy.cuda.get_current_stream().ptr)}:
            # Not one that captures, nor the legacy stream beside a capture that it would break.
            if driver.stream.capture_status_unheard(each) == "none":
                driver.stream.synchronize(each)
        # CuPy lets go of the events that are over; and a block is there for `cupy_pinned`.
        self.cupy.cuda.alloc_pinned_memory(1)

    def _try(self, what: str, act: Callable[[], object]) -> None:
        try:
            act()
        except ContextPoisoned:
            raise
        except Exception as error:
            _log.warning("CuPy could not be made ready for a capture window: %s: %s", what, error)


@contextmanager
def first_use_refused() -> Iterator[None]:
    """In the block, in the calling thread's window, CuPy's first use of a library is refused."""
    if open_window.mine() is None:
        yield
        return
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        with suppress(ValueError):  # somebody else's list by now
            sys.meta_path.remove(finder)


class _Finder:
    """The first of the import system's: asked for modules that are not loaded, and finds none."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        library, window = _LIBRARIES.get(name), open_window.mine()
        if library is None or window is None:
            return
        raise open_window.refused(
            LibraryNotReady(
                f"CuPy would load {library.name} in the capture window of {window.label!r}, which "
                "its priming pass did not use",
                open_window.requester(),
                library.remedy,
            )
        )
