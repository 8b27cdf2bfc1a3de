"""A cache of small steps by length, and the same without a graph to compare with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np

from lowgraph import driver
from lowgraph.capture import GraphStep, ShapeKeyedSteps
from lowgraph.memory import PersistentPool, download, upload
from tests.support.rig import Rig

SOURCE = Path(__file__).parent / "step.cu"
LONGEST = 4096

# What makes a handle, and what ends it.
HANDLES = {
    "cuGraphInstantiate": "cuGraphExecDestroy",
    "cuStreamEndCapture": "cuGraphDestroy",
    "cuEventCreate": "cuEventDestroy",
    "cuStreamCreateWithPriority": "cuStreamDestroy",
    "cuMemAlloc": "cuMemFree",
}


class Shaped:
    """y[:key] += rate * (2 x[:key] + 1) for a key of that length: one step a key."""

    def __init__(self, rig: Rig, **budget: Any) -> None:
        self.rig = rig
        self.pool = PersistentPool(rig.device)
        names = ("advance", "forward", "update")
        self.advance, self.forward, self.update = (
            rig.library.kernel(SOURCE, name) for name in names
        )
        self.counter = self.pool.take("counter", 1, np.int64)
        self.rate = self.pool.take("rate", 1)
        self.x, self.y = self.pool.take("x", LONGEST), self.pool.take("y", LONGEST)
        self.made: Counter[Hashable] = Counter()
        self.steps = ShapeKeyedSteps(self.make, pool=self.pool, **budget)
        self.options: dict[str, Any] = {}
        self.reset()

    def reset(self) -> None:
        stream = self.rig.stream
        upload(self.counter, np.zeros(1, np.int64), stream)
        upload(self.x, np.linspace(-1, 1, LONGEST, dtype=np.float32), stream)
        upload(self.y, np.zeros(LONGEST, np.float32), stream)
        self.rig.sync()

    def body(self, stream: int, length: int) -> None:
        blocks = -(-length // 128)
        self.advance(stream, 1, 1, self.counter, self.rate)
        hidden = self.pool.take("hidden", length)
        self.forward(stream, blocks, 128, hidden, self.x, length)
        self.update(stream, blocks, 128, self.y, hidden, self.rate, length)

    def make(self, key: Hashable) -> GraphStep:
        self.made[key] += 1
        assert isinstance(key, int)
        given = {"device": self.rig.device, "stream": self.rig.stream, "say": lambda text: None}
        return GraphStep(
            lambda stream: self.body(stream, key), pool=self.pool, library=self.rig.library,
            label=f"length {key}", **{**given, **self.options},
        )  # fmt: skip

    def state(self) -> bytes:
        return download(self.y, self.rig.stream).tobytes()

    def eager(self, keys: list[int]) -> bytes:
        """The state after these steps without any graph, from the beginning."""
        self.reset()
        for key in keys:
            with self.pool.eager_pass():
                self.body(self.rig.stream, key)
        return self.state()

    def close(self) -> None:
        self.steps.close()
        self.pool.close()


class LiveHandles:
    """Handles made and not ended since it was made, by the calls that passed the gate."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self._before = driver.gate.observer

    def __enter__(self) -> LiveHandles:
        driver.gate.observer = self._seen
        return self

    def __exit__(self, *error: object) -> None:
        driver.gate.observer = self._before

    def _seen(self, name: str, args: tuple[Any, ...], code: int) -> None:
        if code == 0:
            self.calls[name] += 1

    def live(self) -> dict[str, int]:
        return {made: self.calls[made] - self.calls[ended] for made, ended in HANDLES.items()}
