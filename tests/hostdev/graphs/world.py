"""What the capture rules are asked about: a capturing stream, others, events, memory, a graph."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from cuda.bindings import driver as cu

from lowgraph.driver import Device
from tests.hostdev.graphs.kit import KERNELS, answer_of, must

MODES = {"global": 0, "thread_local": 1, "relaxed": 2}
NON_BLOCKING, BLOCKING = 1, 0
_STATUS = {0: "none", 1: "active", 2: "invalidated"}


class CaptureWorld:
    """Objects for one row; `close` ends what captures and frees them."""

    def __init__(self, device: Device, image: bytes, flags: int = NON_BLOCKING) -> None:
        self._device = device
        self.image = image
        self.module = must(cu.cuModuleLoadData(image))
        self.modules = [self.module, must(cu.cuModuleLoadData(image))]
        self.kernel = must(cu.cuModuleGetFunction(self.module, KERNELS[0].encode()))
        self.stream = must(cu.cuStreamCreate(flags))
        self.other = must(cu.cuStreamCreate(NON_BLOCKING))
        self.never, self.before, self.event = (must(cu.cuEventCreate(0)) for _ in range(3))
        self.memory = int(must(cu.cuMemAlloc(256)))
        self.spare = int(must(cu.cuMemAlloc(256)))
        self.from_pool = int(must(cu.cuMemAllocAsync(256, self.other)))
        self.host = np.zeros(256, np.uint8)
        self.executable = self._empty_executable()
        must(cu.cuEventRecord(self.before, self.other))
        must(cu.cuCtxSynchronize())

    def begin(self, mode: str) -> None:
        must(cu.cuStreamBeginCapture(self.stream, cu.CUstreamCaptureMode(MODES[mode])))
        assert self.launch(self.stream) == 0

    def launch(self, stream: Any, threads: int = 32, shared: int = 0) -> int:
        """Launch `add(memory, 1, 0)`, which writes nothing; returns the code."""
        values = (ctypes.c_uint64(self.memory), ctypes.c_float(1.0), ctypes.c_int(0))
        pointers = (ctypes.c_void_p * 3)(*[ctypes.addressof(value) for value in values])
        address = ctypes.addressof(pointers)
        launched = cu.cuLaunchKernel(
            self.kernel, 1, 1, 1, threads, 1, 1, shared, stream, address, 0
        )
        return answer_of(launched)

    def load(self) -> int:
        """Load a module that `close` unloads; returns the code."""
        code, module = cu.cuModuleLoadData(self.image)
        if int(code) == 0:
            self.modules.append(module)
        return int(code)

    def unload(self) -> int:
        """Unload a module that nothing uses; returns the code."""
        code = answer_of(cu.cuModuleUnload(self.modules[-1]))
        if code == 0:
            self.modules.pop()
        return code

    def status(self) -> str:
        return _STATUS[int(must(cu.cuStreamIsCapturing(self.stream)))]

    def end(self) -> tuple[int, int | None]:
        """End the capture: (code, nodes of the graph or None)."""
        code, graph = cu.cuStreamEndCapture(self.stream)
        if int(code) != 0:
            assert not int(graph or 0), "a failed capture must give no graph"
            return int(code), None
        nodes = int(must(cu.cuGraphGetNodes(graph, 0), 1))
        must(cu.cuGraphDestroy(graph))
        return 0, nodes

    def elsewhere(self, call: Callable[[], int]) -> int:
        """Make a call on another thread, with the context current; returns its code."""
        codes: list[int] = []

        def body() -> None:
            self._device.make_current()
            codes.append(call())

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        return codes[0]

    def close(self) -> None:
        for stream in (self.stream, self.other):
            if int(must(cu.cuStreamIsCapturing(stream))) != 0:
                cu.cuStreamEndCapture(stream)
        must(cu.cuCtxSynchronize())
        cu.cuMemFreeAsync(self.from_pool, self.other)  # a row may have freed it, or `spare`
        cu.cuMemFree(self.spare)
        must(cu.cuMemFree(self.memory))
        must(cu.cuGraphExecDestroy(self.executable))
        for event in (self.never, self.before, self.event):
            must(cu.cuEventDestroy(event))
        for stream in (self.stream, self.other):
            must(cu.cuStreamDestroy(stream))
        must(cu.cuCtxSynchronize())
        for module in self.modules:
            must(cu.cuModuleUnload(module))

    def _empty_executable(self) -> Any:
        graph = must(cu.cuGraphCreate(0))
        executable = must(cu.cuGraphInstantiate(graph, 0))
        must(cu.cuGraphDestroy(graph))
        return executable


def expect(world: CaptureWorld, given: int, outcome: str) -> None:
    """Check that a call answered `outcome` (code, "!" if it invalidates), and the capture's end."""
    invalidated = outcome.endswith("!")
    assert f"{given}{'!' if invalidated else ''}" == outcome
    assert world.status() == ("invalidated" if invalidated else "active")
    assert world.launch(world.stream) == (901 if invalidated else 0)
    # Two launches are in the graph, and none of what the row did beside it.
    assert world.end() == ((901, None) if invalidated else (0, 2))
    assert world.status() == "none"
