"""cupy_ops: CuPy's operations in a step's body, in its priming pass and in its window alike.

    def body(stream):
        with cupy_ops(pool, stream):
            out[...] = cupy.tanh(x * w)     # x, w, out: cupy_view(piece), or arrays of CuPy's own

In the block CuPy's current stream is the body's, and CuPy's arrays are slices of the pool, which
the priming pass keeps for the window: CuPy's own pool is not asked. In a window nothing of CuPy's
may wait; what it refuses itself is told as a refusal of ours, with what to use instead, and what it
sent is in the step's report and audit, held by the graph. All of it counts for the calling thread
alone, and ends with the block, whatever ends that.

An array made in the block that is kept beyond the pass keeps its memory; that of the recorded pass
shows what each replay writes there. Python numbers are passed by value: every replay uses those
that were recorded.
"""

from __future__ import annotations

import importlib
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from lowgraph.capture.shared_block import SharedBlock
from lowgraph.driver import context
from lowgraph.driver.foreign_stream import StreamLike, stream_handle
from lowgraph.errors import ConfigError, LowgraphError
from lowgraph.interop import cupy_library, runtime_errors
from lowgraph.interop.cupy_libraries import Preparation, first_use_refused
from lowgraph.interop.cupy_pinned import host_arrays_refused
from lowgraph.interop.cupy_refusals import poisoned, refusal_of
from lowgraph.interop.cupy_stream import current_stream
from lowgraph.interop.cupy_views import memory_pointer
from lowgraph.interop.pass_memory import PassMemory
from lowgraph.memory import PersistentPool, open_window

__all__ = ["cupy_ops"]


class _Here(threading.local):
    inside = False  # a block of this thread's


_here = _Here()


@contextmanager
def cupy_ops(pool: PersistentPool, stream: StreamLike) -> Iterator[Any]:
    """See the module. Yields the stream as a CuPy stream.

    pool: of the step. stream: that the body was given, or a fork of it.

    Raises ConfigError without CuPy or a GPU, and inside another block of this thread; PoolError
    outside of a step's body; in a window CaptureRefused for what cannot be recorded; WrongContext;
    ContextPoisoned; and what the block raises.
    """
    cupy = _ready(pool)
    handle = stream_handle(stream)
    memory = PassMemory(pool, "CuPy", handle)
    where = open_window.requester()
    runtime_errors.take_stale(where)
    shared = SharedBlock("CuPy", handle, pool)
    lent = _lent(cupy, handle, memory, pool.device.ordinal)
    try:
        with _once(), _refused_first(cupy), shared, lent as theirs:
            yield theirs
    except Exception as error:
        told = _told(error, memory, shared)
        if told is error:
            raise
        raise told from error
    finally:
        memory.leave()
        runtime_errors.take_stale(where)
    if shared.refusal is not None:
        raise open_window.refused(shared.refusal)


@contextmanager
def _refused_first(cupy: Any) -> Iterator[None]:
    """In a window, what CuPy would begin before it refuses is refused; other passes prepare it."""
    if open_window.mine() is None:
        recorder = open_window.recorder()
        if recorder is not None and recorder.is_mine():
            recorder.before_window(Preparation(cupy))
        yield
        return
    with host_arrays_refused(cupy), first_use_refused():
        yield


@contextmanager
def _lent(cupy: Any, handle: int, memory: PassMemory, ordinal: int) -> Iterator[Any]:
    """CuPy with our stream and our memory, and in a window without a wait."""
    with ExitStack() as undo:
        theirs = undo.enter_context(current_stream(cupy, handle, ordinal))
        allocate = _allocator(cupy, memory, ordinal)
        undo.enter_context(cupy.cuda.using_allocator(allocate))
        if open_window.mine() is not None:
            undo.enter_context(_without_waits())
        yield theirs


def _allocator(cupy: Any, memory: PassMemory, ordinal: int) -> Callable[[int], Any]:
    def allocate(nbytes: int) -> Any:
        current = cupy.cuda.get_current_stream(ordinal)
        piece, keeper = memory.take(int(nbytes), int(current.ptr))
        return memory_pointer(cupy, piece, keeper)

    return allocate


@contextmanager
def _without_waits() -> Iterator[None]:
    """CuPy refuses what waits, before it begins; a release without that switch, as it copies."""
    switch = getattr(importlib.import_module("cupyx"), "allow_synchronize", None)
    if switch is None:
        yield
        return
    forbidden = switch(False)
    with warnings.catch_warnings():
        # That it does not see all of what waits; what it does not, comes back from the driver.
        warnings.simplefilter("ignore")
        forbidden.__enter__()
    try:
        yield
    finally:
        forbidden.__exit__(None, None, None)


@contextmanager
def _once() -> Iterator[None]:
    """Whose nodes are whose, and on which stream CuPy is, one block can say."""
    if _here.inside:
        raise ConfigError(
            f"{open_window.requester()}: cupy_ops inside cupy_ops: end the outer block first, also "
            "for another stream or the body of a conditional"
        )
    _here.inside = True
    try:
        yield
    finally:
        _here.inside = False


def _ready(pool: PersistentPool) -> Any:
    if not pool.device.spec.startswith("cuda:"):
        raise ConfigError(
            f"cupy_ops: CuPy runs on GPUs, and this process's device is {pool.device.spec}: open "
            "one (--device cuda), or write the operations as kernels"
        )
    context.require("cupy_ops")
    return cupy_library.load("cupy_ops")


def _told(error: Exception, memory: PassMemory, shared: SharedBlock) -> BaseException:
    """What to raise for what left the block; `error` itself if it is the body's own."""
    if isinstance(error, LowgraphError):
        return error
    lost = poisoned(error)
    if lost is not None:
        return lost
    refusal = refusal_of(error)
    if refusal is None and _is_cupys(error):
        refusal = memory.refusal or shared.refusal
    return error if refusal is None else open_window.refused(refusal)


def _is_cupys(error: Exception) -> bool:
    # A sort tells of memory that it did not get by the latter.
    return type(error).__module__.startswith("cupy") or isinstance(error, MemoryError)
