"""CuPy's allocator of pinned memory in a window: refuses before an array of the host is copied.

What CuPy makes of host arrays and lists it copies by way of pinned memory, which it asks a public
allocator for (`cupy.cuda.set_pinned_memory_allocator`). That one is the process's, and there is no
asking which one is set. So ours is set only where CuPy's own, that of its default pool, is known to
be: it passes on what other threads and other code ask for, and CuPy's own is set again at the end.
Where somebody has set another one, it stays, and CuPy's own refusal of the copy is what is told.
"""

from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lowgraph import driver
from lowgraph.errors import PageableHostMemory
from lowgraph.memory import counted, open_window

__all__ = ["REMEDY", "host_arrays_refused"]

REMEDY = (
    "make slices or CuPy arrays of host arrays before the step, lists as indices among them, or "
    "copy from a staging slot of the pool"
)
_METHODS = (types.BuiltinMethodType, types.MethodType)

# The allocator that was put back last: it lives for as long as CuPy has it.
_known: weakref.ref[Any] | None = None


@contextmanager
def host_arrays_refused(cupy: Any) -> Iterator[None]:
    """In the block, in the calling thread's window, arrays of the host are PageableHostMemory.

    Nothing is set outside of windows. One window is open at a time, so one of these stands.
    """
    pool = cupy.get_default_pinned_memory_pool()
    if open_window.mine() is None or not _is_set(cupy, pool):
        yield
        return
    ours = _Refusing(pool)
    standing = weakref.ref(ours)
    cupy.cuda.set_pinned_memory_allocator(ours)
    del ours  # CuPy alone holds it now
    try:
        yield
    finally:
        if standing() is not None:  # else the body, or another thread, has set one of its own
            _put_back(cupy, pool)


def _put_back(cupy: Any, pool: Any) -> None:
    global _known
    own = pool.malloc
    _known = weakref.ref(own)
    cupy.cuda.set_pinned_memory_allocator(own)


class _Refusing:
    """An allocator of CuPy's: refuses in the calling thread's window, else asks the pool."""

    __slots__ = ("__weakref__", "_pool")

    def __init__(self, pool: Any) -> None:
        self._pool = pool  # not its method: see `_is_set`

    def __call__(self, nbytes: int) -> Any:
        pool = self._pool
        del self  # a traceback that held it would hide that another one was set
        window = open_window.mine()
        if window is None:
            return pool.malloc(nbytes)
        raise open_window.refused(
            PageableHostMemory(
                f"CuPy would copy {counted(nbytes, 'byte')} of an array or list of the host in the "
                f"capture window of {window.label!r}, by way of pinned memory, which every replay "
                "would read again",
                open_window.requester(),
                REMEDY,
            )
        )


def _is_set(cupy: Any, pool: Any) -> bool:
    """Whether the allocator that CuPy asks is that pool's own.

    It is if a block comes from the pool, and if CuPy holds the pool's method, which it does where
    Python does not look: the one method `malloc` that exists is one that nothing in Python holds.
    Where somebody's wrapper holds one, or keeps one for later, nothing is certain.
    """
    known = None if _known is None else _known()
    if known is not None and known.__self__ is pool:
        return True  # without a search among all objects of the process
    # Asked behind the events of earlier copies; in relaxed mode that cannot break the capture.
    with driver.stream.relaxed():
        try:
            origin = getattr(cupy.cuda.alloc_pinned_memory(1).mem, "pool", None)
        except Exception:  # of an allocator that is not CuPy's, or cannot be had: it stays
            return False
    if origin is None or origin() is not pool:
        return False
    found = [
        one
        for one in gc.get_referrers(pool)
        if isinstance(one, _METHODS) and one.__self__ is pool and one.__name__ == "malloc"
    ]
    return len(found) == 1 and all(holder is found for holder in gc.get_referrers(found[0]))
