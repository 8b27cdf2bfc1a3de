"""Graphs with conditional nodes for tests: capture into a body, steer, run, read the counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver as cu

from lowgraph.driver import conditional, graph, stream
from lowgraph.driver.conditional import ConditionalNode
from tests.support.rig import Buffer, Rig

SOURCE = Path(__file__).resolve().parent / "conditional.cu"


class ConditionalKit:
    """A graph, kernels, and counters in device memory; `close` frees what it made."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.inner = stream.create()
        self.count_to = rig.library.kernel(SOURCE, "count_to")
        self.decide = rig.library.kernel(SOURCE, "decide")
        self.bump = rig.library.kernel(SOURCE, "bump")
        self.target = self.number()
        self.graph = graph_of()
        self._graphs = [self.graph]
        self._executables: list[int] = []

    def number(self, value: int = 0) -> Buffer:
        return self.rig.put(np.array([value], np.int32))

    def read(self, buffer: Buffer) -> int:
        return int(self.rig.get(buffer)[0])

    def new_graph(self) -> int:
        self._graphs.append(graph_of())
        return self._graphs[-1]

    def keep(self, handle: int) -> int:
        self._graphs.append(handle)
        return handle

    def record(self, body: int, send: Callable[[int], object], mode: str = "thread_local") -> None:
        """Record what `send(stream)` issues into a graph that is there already."""
        conditional.begin_body(self.inner, body, mode)
        send(self.inner)
        stream.end_capture(self.inner)

    def loop(self, count: Buffer, limit: Buffer, default: int = 1) -> tuple[int, ConditionalNode]:
        """A WHILE in the graph that counts to the limit: its handle and node."""
        handle = conditional.create_handle(self.graph, default)
        node = conditional.add(self.graph, [], handle, "while")
        self.record(node.bodies[0], lambda s: self.count_to(s, 1, 1, handle, count, limit))
        return handle, node

    def ready(self, handle: int | None = None) -> int:
        """Instantiate."""
        made = graph.instantiate(self.graph if handle is None else handle)
        self._executables.append(made)
        return made

    def run(self, executable: int, times: int = 1) -> None:
        for _ in range(times):
            graph.launch(executable, self.rig.stream)
        self.rig.sync()

    def destroy_graph(self) -> None:
        """Destroy the graph now; executables made from it live on."""
        graph.destroy(self._graphs.pop(0))

    def destroy_executable(self, executable: int) -> None:
        self._executables.remove(executable)
        graph.exec_destroy(executable)

    def close(self) -> None:
        if stream.capture_status(self.inner) != "none":
            cu.cuStreamEndCapture(self.inner)
        self.rig.sync()
        for executable in self._executables:
            graph.exec_destroy(executable)
        for handle in self._graphs:
            graph.destroy(handle)
        stream.destroy(self.inner)


def graph_of() -> int:
    code, made = cu.cuGraphCreate(0)
    assert not code
    return int(made)


def raw_node(graph_handle: int, handle: int, **fields: Any) -> int:
    """The code of adding a conditional node whose fields are as given (default: a good IF)."""
    params = cu.CUgraphNodeParams()
    params.type = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
    params.conditional.handle = cu.CUgraphConditionalHandle(handle)
    params.conditional.type = cu.CUgraphConditionalNodeType(fields.get("type", 0))
    params.conditional.size = fields.get("size", 1)
    params.conditional.ctx = fields.get("ctx", cu.cuCtxGetCurrent()[1])
    add = getattr(cu, "cuGraphAddNode_v2", None) or cu.cuGraphAddNode
    return int(add(graph_handle, [], None, 0, params)[0])
