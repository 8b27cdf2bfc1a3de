"""Raw driver calls for tests of the host device, and ways to hold a stream."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver as cu

from lowgraph import hostdev
from lowgraph.driver import Device

SOURCE = Path(__file__).resolve().parent / "kernels.cu"

SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED = 0, 1, 2, 3
INVALID_IMAGE, INVALID_CONTEXT, NO_BINARY = 200, 201, 209
INVALID_HANDLE, NOT_FOUND, NOT_READY = 400, 500, 600
ILLEGAL_ADDRESS, NOT_PERMITTED = 700, 800
NON_BLOCKING, NO_TIMING = 1, 2

HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def code_of(answer: Any) -> int:
    return int(answer[0]) if isinstance(answer, tuple) else int(answer)


def must(answer: Any) -> Any:
    """Return the result of a call that has to succeed."""
    assert code_of(answer) == 0, answer
    return answer[1] if len(answer) == 2 else answer[1:]


class Kit:
    """Calls on the open host device; `close` frees what was made through it."""

    def __init__(self, device: Device, image: bytes) -> None:
        self.image = image
        self.library = hostdev.load()
        self.module = must(cu.cuModuleLoadData(image))
        self._streams: list[Any] = []
        self._events: list[Any] = []
        self._memory: list[int] = []
        self._kept: list[Any] = []

    def function(self, name: str) -> Any:
        return must(cu.cuModuleGetFunction(self.module, name.encode()))

    def stream(self, flags: int = NON_BLOCKING) -> Any:
        self._streams.append(must(cu.cuStreamCreate(flags)))
        return self._streams[-1]

    def event(self, flags: int = 0) -> Any:
        self._events.append(must(cu.cuEventCreate(flags)))
        return self._events[-1]

    def alloc(self, nbytes: int) -> int:
        self._memory.append(int(must(cu.cuMemAlloc(nbytes))))
        return self._memory[-1]

    def put(self, values: Sequence[float]) -> int:
        """Device memory with these floats."""
        source = np.array(values, np.float32)
        address = self.alloc(source.nbytes)
        must(cu.cuMemcpyHtoD(address, source.ctypes.data, source.nbytes))
        must(cu.cuStreamSynchronize(0))  # or it may arrive behind work of a non-blocking stream
        return address

    def get(self, address: int, count: int) -> list[float]:
        """Read floats, after all work of blocking streams."""
        out = np.empty(count, np.float32)
        must(cu.cuMemcpyDtoH(out.ctypes.data, address, out.nbytes))
        return [float(value) for value in out]

    def launch(
        self,
        name: str,
        *values: Any,
        stream: Any = 0,
        grid: int = 1,
        block: int = 1,
        shared: int = 0,
    ) -> int:
        """Launch with ctypes values; returns the code."""
        pointers = (ctypes.c_void_p * max(len(values), 1))(*[ctypes.addressof(v) for v in values])
        answer = cu.cuLaunchKernel(
            self.function(name),
            grid,
            1,
            1,
            block,
            1,
            1,
            shared,
            stream,
            ctypes.addressof(pointers),
            0,
        )
        return code_of(answer)

    def scale(self, y: int, x: int, factor: float, count: int, stream: Any = 0) -> int:
        values = (pointer(y), pointer(x), ctypes.c_float(factor), ctypes.c_int(count))
        return self.launch("scale", *values, stream=stream, block=128, grid=-(-count // 128))

    def call_host(self, stream: Any, function: Any) -> int:
        """Queue a Python function by the C entry point: bindings 12.9 break theirs."""
        callback = HostFunction(lambda _data: function())
        self._kept.append(callback)
        return int(self.library.cuLaunchHostFunc(ctypes.c_void_p(int(stream)), callback, None))

    @contextmanager
    def held(self, stream: Any) -> Iterator[None]:
        """Keep a stream busy for the duration of the block."""
        gate = threading.Event()
        assert self.call_host(stream, gate.wait) == SUCCESS
        try:
            yield
        finally:
            gate.set()
            must(cu.cuStreamSynchronize(stream))

    def close(self) -> None:
        must(cu.cuCtxSynchronize())
        for stream in self._streams:
            cu.cuStreamDestroy(stream)
        for event in self._events:
            cu.cuEventDestroy(event)
        for address in self._memory:
            cu.cuMemFree(address)
        must(cu.cuModuleUnload(self.module))


def pointer(address: int) -> ctypes.c_uint64:
    return ctypes.c_uint64(address)
