"""A pool, a few buffers and two kernels, and steps over them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver as cu

from lowgraph.capture import GraphStep
from lowgraph.memory import PersistentPool, download, upload
from lowgraph.train.atlas import Subject
from tests.support.rig import Rig

SOURCE = Path(__file__).parent / "work.cu"
N = 257
SHORT, LONG = 1, 3_000_000  # rounds of spin: a microsecond or less, and some milliseconds


class Parts:
    """`touch` and `spin` enqueue one kernel each; close it at the end."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.stream = rig.stream
        self.pool = PersistentPool(rig.device)
        self._touch = rig.library.kernel(SOURCE, "touch")
        self._spin = rig.library.kernel(SOURCE, "spin")
        self.out = self.pool.take("out", N)
        self.rounds = self.pool.take("rounds", 2, np.int64)
        upload(self.out, np.zeros(N, np.float32), self.stream)
        self.set_rounds(SHORT, LONG)
        self._steps: list[GraphStep] = []

    def set_rounds(self, *rounds: int) -> None:
        """How long spin(0) and spin(1) take from now on."""
        upload(self.rounds, np.array(rounds, np.int64), self.stream)
        self.rig.sync()

    def touch(self, stream: int) -> None:
        self._touch(stream, -(-N // 128), 128, self.out, N)

    def spin(self, stream: int, which: int) -> None:
        self._spin(stream, 1, 1, self.out, self.rounds.address + 8 * which)

    def touched(self) -> float:
        """How often `touch` ran, as the last element has it: spin writes the first alone."""
        return float(download(self.out, self.stream)[-1])

    def step(self, body: Callable[[int], None], **options: Any) -> GraphStep:
        made = GraphStep(
            body,
            device=self.rig.device,
            pool=self.pool,
            library=self.rig.library,
            stream=self.stream,
            **options,
        )
        self._steps.append(made)
        return made

    def subject(self, body: Callable[[int], None]) -> Subject:
        return Subject(body, self.rig.device, self.pool, self.rig.library, self.stream)

    def close(self) -> None:
        for step in self._steps:
            step.close()
        self.pool.close()


def graph_nodes(step: GraphStep) -> list[str]:
    """Type of each node of a step's graph, a kernel's by name, asked of the driver directly."""
    assert step.graph is not None
    graph = step.graph.contents.graph
    count = cu.cuGraphGetNodes(graph, 0)[2]
    found = []
    for node in cu.cuGraphGetNodes(graph, count)[1][:count]:
        kind = cu.cuGraphNodeGetType(node)[1]
        if kind == cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL:
            function = int(cu.cuGraphKernelNodeGetParams(node)[1].func)
            found.append(cu.cuFuncGetName(function)[1].decode())
        else:
            found.append(kind.name.removeprefix("CU_GRAPH_NODE_TYPE_"))
    return found
