"""The driver objects of one sequence: made before it, observed after each call, freed after it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from cuda.bindings import driver as cu

_PREFIXES = ("CUDA_ERROR_", "CUDA_", "CU_STREAM_CAPTURE_STATUS_", "CU_GRAPH_NODE_TYPE_")
_STREAM_FLAGS = (1, 1, 0)  # CU_STREAM_NON_BLOCKING
_EVENT_FLAGS = (2, 2, 0)  # CU_EVENT_DISABLE_TIMING
_LEGACY = 0
_NODES, _EDGES = 256, 1024  # room that is asked for; a sequence has 30 calls


def short(member: Any) -> str:
    """Return an enum member's name without its family's prefix."""
    name = str(member.name)
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
    return name[len(prefix) :]


def check(answer: tuple[Any, ...]) -> Any:
    """Return the one result of a call that must succeed, for what surrounds the sequences."""
    if int(answer[0]) != 0:
        raise RuntimeError(f"a set-up call gave {answer[0]!r}")
    return answer[1] if len(answer) > 1 else None


@dataclass(frozen=True)
class Fixtures:
    """What all sequences of a process share: two kernels, their arguments, memory."""

    kernels: list[Any]
    buffers: list[int]
    pinned: int
    arguments: Any  # the array whose address a launch takes, which must stay alive
    values: list[Any]

    @classmethod
    def load(cls, image: bytes) -> Fixtures:
        """Load the module image and allocate. A context must be current."""
        module = check(cu.cuModuleLoadData(image))
        kernels = [check(cu.cuModuleGetFunction(module, name)) for name in (b"noop", b"noop2")]
        buffers = [int(check(cu.cuMemAlloc(4096))) for _ in range(3)]
        values = [ctypes.c_void_p(buffers[0]), ctypes.c_int(1)]
        arguments = (ctypes.c_void_p * 2)(*[ctypes.addressof(value) for value in values])
        return cls(kernels, buffers, int(check(cu.cuMemHostAlloc(4096, 0))), arguments, values)


class Objects:
    """Streams and events to begin with; graphs, executables and memory as the calls make them."""

    def __init__(self, fixtures: Fixtures) -> None:
        self.shared = fixtures
        self.streams = [check(cu.cuStreamCreate(flags)) for flags in _STREAM_FLAGS]
        self.events = [check(cu.cuEventCreate(flags)) for flags in _EVENT_FLAGS]
        self.graphs: list[Any] = []
        self.executables: list[Any] = []
        self.allocations: list[Any] = []
        self.async_allocations: list[tuple[Any, bool]] = []  # (pointer, while something captured)

    def stream(self, index: int) -> Any:
        """Return the stream of an index into plan.STREAMS."""
        return self.streams[index] if index < len(self.streams) else cu.CUstream(_LEGACY)

    def statuses(self) -> list[str]:
        """Return four letters of each stream's capture status, or the code of asking for it."""
        answers = [cu.cuStreamIsCapturing(stream) for stream in self.streams]
        return [short(status)[:4] if int(code) == 0 else short(code) for code, status in answers]

    def keep_graph(self, answer: tuple[Any, ...]) -> list[Any] | None:
        """Keep the graph of an ended capture; returns its node types and edges, by order."""
        code, graph = answer
        if int(code) != 0 or graph is None or not int(graph):
            return None
        self.graphs.append(graph)
        _, nodes, count = cu.cuGraphGetNodes(graph, _NODES)
        place = {int(node): index for index, node in enumerate(nodes[:count])}
        types = [short(cu.cuGraphNodeGetType(node)[1]) for node in nodes[:count]]
        _, starts, ends, *_, count = cu.cuGraphGetEdges(graph, _EDGES)
        pairs = zip(starts[:count], ends[:count], strict=True) if count else ()
        return [types, sorted([place[int(start)], place[int(end)]] for start, end in pairs)]

    def tear_down(self) -> None:
        """End what still captures and free everything; codes do not matter any more."""
        for _ in range(2):  # an origin's end may have to come before its fork's
            for stream in self.streams:
                if int(cu.cuStreamIsCapturing(stream)[1]) != 0:
                    cu.cuStreamEndCapture(stream)
        check(cu.cuCtxSynchronize())
        for executable in self.executables:
            cu.cuGraphExecDestroy(executable)
        for graph in self.graphs:
            cu.cuGraphDestroy(graph)
        for pointer, captured in self.async_allocations:
            if not captured:
                cu.cuMemFreeAsync(pointer, cu.CUstream(_LEGACY))
        check(cu.cuCtxSynchronize())
        for pointer in self.allocations:
            check(cu.cuMemFree(pointer))
        for event in self.events:
            check(cu.cuEventDestroy(event))
        for stream in self.streams:
            check(cu.cuStreamDestroy(stream))
