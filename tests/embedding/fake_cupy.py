"""CuPy's entry points that `cupy_ops` uses, recorded: for the order of things, without a GPU.

Signatures and state are those of CuPy 14.2.0 (test_cupy_signatures.py holds them against the real
one): the current stream by thread and device, the stack beside it whose top becomes current at the
end of a `with`, the thread's own allocator, and the switch that forbids waits.
"""

from __future__ import annotations

import threading
import warnings
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
        get_current_stream=get_current_stream,
        using_allocator=using_allocator,
    ),
)
cupyx = SimpleNamespace(allow_synchronize=allow_synchronize)
