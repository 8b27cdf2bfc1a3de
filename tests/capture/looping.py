"""A step with a WHILE in it: it adds limit + (limit - 1) + ... + 1, the limit in device memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lowgraph.capture import Conditional, GraphStep
from lowgraph.memory import PersistentPool, download, upload
from tests.support.rig import Rig

SOURCE = Path(__file__).parent / "conditional.cu"


class Looping:
    """State in a pool of its own, and a body: begin, while, an addition of 1000 behind it.

    `inside(stream)` runs in the body of the WHILE, before its kernel.
    """

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.stream = rig.stream
        self.pool = PersistentPool(rig.device)
        self.steer = Conditional(rig.library)
        self.begin = rig.library.kernel(SOURCE, "begin_count")
        self.down = rig.library.kernel(SOURCE, "count_down")
        self.add = rig.library.kernel(SOURCE, "add_to")
        self.left = self.pool.take("left", 1, np.int32)
        self.again = self.pool.take("again", 1, np.int32)
        self.limit = self.pool.take("limit", 1, np.int32)
        self.sum = self.pool.take("sum", 1, np.int64)
        self.inside: Callable[[int], object] = lambda stream: None
        self.said: list[str] = []
        self.steps: list[GraphStep] = []
        self.set(self.sum, 0)
        self.set(self.limit, 5)

    def set(self, piece: Any, value: int) -> None:
        upload(piece, np.full(1, value, piece.dtype), self.stream)
        self.rig.sync()

    def body(self, stream: int) -> None:
        self.begin(stream, 1, 1, self.left, self.again, self.limit)
        self.steer.run_while(stream, self.again, self.round, label="countdown")
        self.add(stream, 1, 1, self.sum, 1000)

    def round(self, stream: int) -> None:
        self.inside(stream)
        self.down(stream, 1, 1, self.left, self.again, self.sum)

    def step(self, **options: Any) -> GraphStep:
        given = {"device": self.rig.device, "pool": self.pool, "stream": self.stream,
                 "library": self.rig.library, "say": self.said.append}  # fmt: skip
        made = GraphStep(options.pop("body", self.body), **{**given, **options})
        self.steps.append(made)
        return made

    def total(self) -> int:
        return int(download(self.sum, self.stream)[0])

    def close(self) -> None:
        for step in self.steps:
            step.close()
        self.steer.close()
        self.pool.close()


def gain(limit: int) -> int:
    """What one step adds."""
    return limit * (limit + 1) // 2 + 1000
