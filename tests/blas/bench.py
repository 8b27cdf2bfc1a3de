"""A Blas with its pool, and operands made from NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lowgraph import driver
from lowgraph.blas import Blas
from lowgraph.capture import GraphStep
from lowgraph.memory import PersistentPool, Slice, upload
from tests.support.rig import Rig


class Bench:
    """The rig's device with a pool and a Blas of its own, and steps and streams to be ended."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.pool = PersistentPool(rig.device)
        self.blas = Blas(rig.device, rig.library, rig.stream, self.pool)
        self.said: list[str] = []
        self.steps: list[GraphStep] = []
        self.streams: list[int] = []

    def put(self, name: str, values: np.ndarray, stream: int | None = None) -> Slice:
        piece = self.pool.take(name, values.shape)
        upload(piece, values.astype(np.float32), self.rig.stream if stream is None else stream)
        return piece

    def random(self, name: str, rows: int, columns: int, seed: int = 1) -> Slice:
        chance = np.random.default_rng(seed)
        return self.put(name, chance.standard_normal((rows, columns)))

    def stream(self) -> int:
        """One more stream, destroyed at the end."""
        self.streams.append(driver.stream.create())
        return self.streams[-1]

    def step(self, body: Callable[[int], None], label: str, **options: Any) -> GraphStep:
        given = {"device": self.rig.device, "pool": self.pool, "stream": self.rig.stream,
                 "library": self.rig.library, "say": self.said.append}  # fmt: skip
        made = GraphStep(body, label=label, **{**given, **options})
        self.steps.append(made)
        return made

    def close(self) -> None:
        for stream in (self.rig.stream, *self.streams):
            driver.stream.synchronize(stream)
        for step in self.steps:
            step.close()
        self.blas.close()
        self.blas.close()
        self.pool.close()
        for stream in self.streams:
            driver.stream.destroy(stream)
