"""A step of four launches over the pool, with the hooks that a test needs to break it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lowgraph.capture import GraphStep
from lowgraph.memory import PersistentPool, download, upload
from tests.support.rig import Rig

SOURCE = Path(__file__).parent / "step.cu"
N = 1000
BLOCKS = -(-N // 128)


class Micro:
    """State in a pool of its own, and a body: advance, forward, update, update.

    `extra` runs inside the body, before the last launch, with the number of the pass (1, 2 ...).
    """

    def __init__(self, rig: Rig, **options: Any) -> None:
        self.rig = rig
        self.stream = rig.stream
        self.pool = PersistentPool(rig.device, **options)
        self.extra: Callable[[int], None] = lambda number: None
        self.passes = 0
        library = rig.library
        self.advance = library.kernel(SOURCE, "advance")
        self.forward = library.kernel(SOURCE, "forward")
        self.update = library.kernel(SOURCE, "update")
        self.by_value = library.kernel(SOURCE, "update_by_value")
        self.counter = self.pool.take("counter", 1, np.int64)
        self.rate = self.pool.take("rate", 1)
        self.x = self.pool.take("x", N)
        self.y = self.pool.take("y", N)
        self.said: list[str] = []
        self.steps: list[GraphStep] = []
        self.reset()

    def reset(self) -> None:
        """Set the state to what a run begins with."""
        upload(self.counter, np.zeros(1, np.int64), self.stream)
        upload(self.x, np.linspace(-1, 1, N, dtype=np.float32), self.stream)
        upload(self.y, np.zeros(N, np.float32), self.stream)
        self.rig.sync()

    def body(self, stream: int) -> None:
        self.passes += 1
        self.advance(stream, 1, 1, self.counter, self.rate)
        hidden = self.pool.take("hidden", N)
        self.forward(stream, BLOCKS, 128, hidden, self.x, N)
        self.update(stream, BLOCKS, 128, self.y, hidden, self.rate, N)
        self.pool.give_back(hidden)
        second = self.pool.take("second", 2 * N)
        self.extra(self.passes)
        self.forward(stream, BLOCKS, 128, second, self.y, N)

    def step(self, **options: Any) -> GraphStep:
        """A GraphStep over the body; what it says is kept in `said`."""
        given = {"device": self.rig.device, "pool": self.pool, "stream": self.stream,
                 "library": self.rig.library, "say": self.said.append}  # fmt: skip
        made = GraphStep(options.pop("body", self.body), **{**given, **options})
        self.steps.append(made)
        return made

    def state(self) -> tuple[int, bytes]:
        """The counter, and the exact bits of y."""
        counter = int(download(self.counter, self.stream)[0])
        return counter, download(self.y, self.stream).tobytes()

    def expected(self, steps: int) -> tuple[int, bytes]:
        """The state after that many eager steps from the beginning, from a run of its own."""
        other = Micro(self.rig)
        for _ in range(steps):
            with other.pool.eager_pass():
                other.body(other.stream)
        state = other.state()
        other.close()
        return state

    def close(self) -> None:
        for step in self.steps:
            step.close()
        self.pool.close()
