"""Graphs for tests: capture what a function issues, launch kernels by name, hold a stream."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver as cu

from lowgraph.driver import Device, graph, memory, stream

SOURCE = Path(__file__).resolve().parent / "kernels.cu"
KERNELS = ("add", "scale", "sum", "hold")
COUNT = 300  # elements of a vector: more than one block, not a multiple of 32
_BLOCK = 128


def answer_of(answer: tuple[Any, ...]) -> int:
    return int(answer[0])


def must(answer: tuple[Any, ...], place: int = 0) -> Any:
    """Return result number `place` of a call that has to succeed."""
    assert int(answer[0]) == 0, answer[0]
    return answer[1 + place] if len(answer) > 1 else None


class Vector:
    """COUNT floats in device memory."""

    def __init__(self, value: float = 0.0) -> None:
        self.address = memory.alloc(4 * COUNT)
        self.set(value)

    def set(self, value: float) -> None:
        source = np.full(COUNT, value, np.float32)
        must(cu.cuMemcpyHtoD(self.address, source.ctypes.data, source.nbytes))
        # Or it may arrive behind work of a non-blocking stream: on a busy H200 a graph's memset and
        # copy, launched later, once came before these zeros.
        must(cu.cuStreamSynchronize(0))

    def value(self) -> float:
        """Return the one value that all elements have, after all work issued so far."""
        must(cu.cuCtxSynchronize())
        read = np.empty(COUNT, np.float32)
        must(cu.cuMemcpyDtoH(read.ctypes.data, self.address, read.nbytes))
        assert (read == read[0]).all()
        return float(read[0])


class Kit:
    """Kernels, vectors and a stream, released by `close`."""

    def __init__(self, device: Device, image: bytes) -> None:
        self._module = must(cu.cuModuleLoadData(image))
        self.functions = {
            name: int(must(cu.cuModuleGetFunction(self._module, name.encode()))) for name in KERNELS
        }
        self.stream = stream.create()
        self.side = stream.create()
        self.vectors: list[Vector] = []
        self._graphs: list[int] = []
        self._executables: list[int] = []
        self.flag = int(must(cu.cuMemHostAlloc(4, 0)))
        self._flag_on_device = int(must(cu.cuMemHostGetDevicePointer(self.flag, 0)))

    def vector(self, value: float = 0.0) -> Vector:
        self.vectors.append(Vector(value))
        return self.vectors[-1]

    def arguments(self, name: str, *values: Any) -> tuple[Any, list[Any]]:
        """Return the array of argument pointers and what must stay alive beside it."""
        if name == "hold":
            kept: list[Any] = [ctypes.c_uint64(self._flag_on_device)]
        elif name == "sum":
            kept = [ctypes.c_uint64(vector.address) for vector in values] + [ctypes.c_int(COUNT)]
        else:
            vector, value = values
            kept = [ctypes.c_uint64(vector.address), ctypes.c_float(value), ctypes.c_int(COUNT)]
        pointers = (ctypes.c_void_p * len(kept))(*[ctypes.addressof(value) for value in kept])
        return pointers, kept

    def launch(self, name: str, *values: Any, on: int | None = None, block: int = _BLOCK) -> None:
        """Launch a kernel on the stream, or on another."""
        pointers, _kept = self.arguments(name, *values)
        grid = 1 if name == "hold" else -(-COUNT // block)
        threads = 1 if name == "hold" else block
        target = self.stream if on is None else on
        function, address = self.functions[name], ctypes.addressof(pointers)
        must(cu.cuLaunchKernel(function, grid, 1, 1, threads, 1, 1, 0, target, address, 0))

    def node_params(self, name: str, *values: Any) -> tuple[Any, Any]:
        """Return a kernel node's parameters and what must stay alive while they are used."""
        pointers, kept = self.arguments(name, *values)
        params = cu.CUDA_KERNEL_NODE_PARAMS()
        params.func = self.functions[name]
        params.gridDimX, params.gridDimY, params.gridDimZ = -(-COUNT // _BLOCK), 1, 1
        params.blockDimX, params.blockDimY, params.blockDimZ = _BLOCK, 1, 1
        params.kernelParams = ctypes.addressof(pointers)
        return params, (pointers, kept)

    def capture(self, body: Callable[[], object]) -> int:
        """Capture what `body` issues on the stream; returns the graph."""
        stream.begin_capture(self.stream)
        body()
        return self.keep(stream.end_capture(self.stream))

    def kernels(self, *names: str, on: Vector) -> int:
        """Capture a chain of one-vector kernels with value 2."""
        return self.capture(lambda: [self.launch(name, on, 2.0) for name in names])

    def new_graph(self) -> int:
        """Make an empty graph."""
        return self.keep(int(must(cu.cuGraphCreate(0))))

    def keep(self, handle: int) -> int:
        """Have `close` destroy a graph, unless the test has."""
        self._graphs.append(handle)
        return handle

    def executable(self, handle: int, flags: int = 0) -> int:
        """Instantiate a graph."""
        self._executables.append(int(must(cu.cuGraphInstantiate(handle, flags))))
        return self._executables[-1]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep `hold` kernels running for the duration of the block, and let them go at its end."""
        flag = ctypes.c_int.from_address(self.flag)
        flag.value = 0
        try:
            yield
        finally:
            flag.value = 1

    def close(self) -> None:
        ctypes.c_int.from_address(self.flag).value = 1
        must(cu.cuCtxSynchronize())
        for executable in self._executables:
            cu.cuGraphExecDestroy(executable)
        for handle in self._graphs:
            cu.cuGraphDestroy(handle)
        for vector in self.vectors:
            memory.free(vector.address)
        for each in (self.stream, self.side):
            stream.destroy(each)
        must(cu.cuMemFreeHost(self.flag))
        must(cu.cuModuleUnload(self._module))


def shape_of(handle: int) -> tuple[list[str], list[tuple[int, int]]]:
    """Return a graph's node types and its edges as pairs of places."""
    nodes = graph.nodes(handle)
    place = {node: index for index, node in enumerate(nodes)}
    edges = sorted((place[start], place[end]) for start, end in graph.edges(handle))
    return [graph.node_type(node) for node in nodes], edges


def launches(executable: int, on: int, times: int = 1) -> None:
    for _ in range(times):
        graph.launch(executable, on)
