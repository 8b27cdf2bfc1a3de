"""CuPy's entry points that `cupy_ops` uses, recorded: for the order of things, without a GPU.

Signatures and state are those of CuPy 14.2.0 (test_cupy_signatures.py holds them against the real
one): the current stream by thread and device, the stack beside it whose top becomes current at the
end of a `with`, the thread's own allocator, the process's allocator of pinned memory, and the
switch that forbids waits.
"""

from __future__ import annotations

import ctypes
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any


class _State(threading.local):
    def __init__(self) -> None:
        self.stack: list[Any] = [NULL]
        self.current: Any = NULL
        self.allocator: Callable[[int], Any] | None = None
        self.may_wait = True


class _BaseStream:
    def __init__(self, ptr: int, device_id: int) -> None:
        self.ptr = ptr
        self.device_id = device_id

    def __enter__(self) -> Any:
        state.stack.append(self)
        state.current = self
        return self

    def __exit__(self, *args: Any) -> None:
        state.stack.pop()
        state.current = state.stack[-1]

    def use(self) -> Any:
        state.current = self
        return self

    def synchronize(self) -> None:
        waited.append(self.ptr)

    @property
    def done(self) -> bool:
        return True

    def launch_host_func(self, callback: Any, arg: Any) -> None:
        raise AssertionError("CuPy keeps the function for captures of its own only")

    def add_callback(self, callback: Any, arg: Any) -> None:
        waited.append(self.ptr)

    def begin_capture(self, mode: Any = None) -> None:
        waited.append(self.ptr)

    def end_capture(self) -> None:
        waited.append(self.ptr)


class ExternalStream(_BaseStream):
    def __init__(self, ptr: int, device_id: int = -1) -> None:
        warnings.warn("ExternalStream is deprecated.", DeprecationWarning, stacklevel=2)
        super().__init__(ptr, device_id)


NULL = _BaseStream(0, -1)
state = _State()
waited: list[int] = []


def get_current_stream(device_id: int = -1) -> Any:
    return state.current


@contextmanager
def using_allocator(allocator: Callable[[int], Any] | None = None) -> Iterator[None]:
    previous, state.allocator = state.allocator, allocator
    try:
        yield
    finally:
        state.allocator = previous


class UnownedMemory:
    def __init__(self, ptr: int, size: int, owner: object, device_id: int = -1) -> None:
        self.ptr, self.size, self._owner, self.device_id = ptr, size, owner, device_id


class MemoryPointer:
    def __init__(self, mem: UnownedMemory, offset: int) -> None:
        self.mem, self.ptr = mem, mem.ptr + offset


def alloc(size: int) -> Any:
    """As cupy.cuda.alloc: an array's memory; of CuPy's own pool where no allocator is set."""
    if state.allocator is None:
        raise AssertionError("CuPy's own pool was asked")
    return state.allocator(size)


class PinnedMemoryPool:
    """Tells what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def malloc(self, nbytes: int) -> Any:
        self.asked.append(nbytes)
        return SimpleNamespace(mem=SimpleNamespace(pool=weakref.ref(self)))


class _Hidden:
    """An object that is held as CuPy's C code holds its allocator: no collector knows."""

    def __init__(self, held: Any) -> None:
        self._address = 0
        self.put(held)

    def get(self) -> Any:
        return ctypes.cast(self._address, ctypes.py_object).value

    def put(self, held: Any) -> None:
        before, self._address = self._address, id(held)
        ctypes.pythonapi.Py_IncRef(ctypes.c_void_p(id(held)))
        if before:
            ctypes.pythonapi.Py_DecRef(ctypes.c_void_p(before))


pinned_pool = PinnedMemoryPool()
pinned = _Hidden(pinned_pool.malloc)
handles: list[str] = []


def alloc_pinned_memory(size: int) -> Any:
    """As it is asked by cupy.asarray of a host array."""
    return pinned.get()(size)


def set_pinned_memory_allocator(allocator: Callable[[int], Any] | None = None) -> None:
    pinned.put(allocator)


class DeviceSynchronized(RuntimeError):
    pass


@contextmanager
def allow_synchronize(allow: bool) -> Iterator[None]:
    warnings.warn("cupyx.allow_synchronize will be removed in future releases", stacklevel=2)
    before, state.may_wait = state.may_wait, allow
    try:
        yield
    finally:
        state.may_wait = before


def get() -> None:
    """As ndarray.get: a copy to the host, which waits."""
    if not state.may_wait:
        raise DeviceSynchronized("Device synchronization was detected while disallowed.")


cupy = SimpleNamespace(
    __version__="14.2.0",
    cuda=SimpleNamespace(
        ExternalStream=ExternalStream,
        MemoryPointer=MemoryPointer,
        UnownedMemory=UnownedMemory,
        alloc_pinned_memory=alloc_pinned_memory,
        device=SimpleNamespace(
            get_cusolver_handle=lambda: handles.append("cuSOLVER"),
            get_cusparse_handle=lambda: handles.append("cuSPARSE"),
        ),
        get_cublas_handle=lambda: handles.append("cuBLAS"),
        get_current_stream=get_current_stream,
        set_pinned_memory_allocator=set_pinned_memory_allocator,
        using_allocator=using_allocator,
    ),
    get_default_pinned_memory_pool=lambda: pinned_pool,
    random=SimpleNamespace(get_random_state=lambda: handles.append("cuRAND")),
)
cupyx = SimpleNamespace(allow_synchronize=allow_synchronize)
