"""y += 2 x over the pool, as a step, a part, or launches of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lowgraph import driver
from lowgraph.capture import GraphPart, GraphStep
from lowgraph.memory import PersistentPool, Slice, download, upload
from tests.capture.moving import SOURCE
from tests.support.rig import Rig

N = 1000
BLOCKS = -(-N // 128)


class Small:
    """A pool with x of ones and y of zeros. Steps and parts that it makes are closed with it."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.stream = rig.stream
        self.pool = PersistentPool(rig.device)
        self.add = rig.library.kernel(SOURCE, "add_twice")
        self.x, self.y = self.put("x", 1), self.put("y", 0)
        self._made: list[Any] = []
        self._executables: list[int] = []

    def put(self, name: str, value: float, shape: Any = (N,)) -> Slice:
        """A slice filled with a value."""
        piece = self.pool.take(name, shape)
        upload(piece, np.full(shape, value, np.float32), self.stream)
        self.rig.sync()
        return piece

    def body(self, stream: int) -> None:
        """y += 2 x by way of a slice of the pass."""
        sums = self.pool.take("sums", N)
        driver.memory.memset_d8_async(sums.address, 0, sums.nbytes, stream)
        self.add(stream, BLOCKS, 128, sums, self.x, N)
        driver.memory.memset_d8_async(self.pool.take("spare", N).address, 0, 4, stream)
        self.add(stream, BLOCKS, 128, self.y, self.x, N)

    def over(self, memory: Any, **options: Any) -> GraphStep:
        """A step of y += 2 x over a pin or other memory."""
        return self.step(lambda s: self.add(s, BLOCKS, 128, self.y, memory, N), **options)

    def step(self, body: Any = None, **options: Any) -> GraphStep:
        made = GraphStep(
            body or self.body, device=self.rig.device, pool=self.pool, library=self.rig.library,
            **{"stream": self.stream, "say": lambda text: None, **options},
        )  # fmt: skip
        self._made.append(made)
        return made

    def ready(self, **options: Any) -> GraphStep:
        """A recorded step of `body`, which ran twice."""
        made = self.step(**options)
        made()
        made()
        assert made.graph is not None, made.report().text()
        return made

    def part(self, body: Any = None, **options: Any) -> GraphPart:
        made = GraphPart(body or self.body, device=self.rig.device, pool=self.pool,
                         library=self.rig.library, **options)  # fmt: skip
        self._made.append(made)
        return made

    @contextmanager
    def their_capture(self, mode: str = "global") -> Iterator[list[int]]:
        """A capture by somebody else; the list has the graph once it has ended."""
        graphs: list[int] = []
        driver.stream.begin_capture(self.stream, mode)
        try:
            yield graphs
        finally:
            graphs.append(driver.stream.end_capture(self.stream))
            self._made.append(Graph(graphs[0]))

    def launch(self, graph: int, times: int = 1) -> None:
        """Instantiate a graph and launch it."""
        executable = driver.graph.instantiate(graph)
        for _ in range(times):
            driver.graph.launch(executable, self.stream)
        self.rig.sync()
        driver.graph.exec_destroy(executable)

    def value(self) -> float:
        """The one value that all of y has."""
        values = download(self.y, self.stream)
        assert (values == values[0]).all()
        return float(values[0])

    def close(self) -> None:
        self.rig.sync()
        for made in reversed(self._made):
            made.close()
        self.pool.close()


class Graph:
    """A graph that is destroyed by `close`."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def close(self) -> None:
        driver.graph.destroy(self.handle)
