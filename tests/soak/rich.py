"""The micro-model with what else a step may hold: a fork, a fill and a copy-in pin."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowgraph import driver
from lowgraph.capture import GraphStep
from lowgraph.capture.pins import CopyIn
from lowgraph.memory import upload
from tests.capture.micro import BLOCKS, Micro, N
from tests.support.rig import Rig


class Rich(Micro):
    """Micro, and on a forked stream z = 2 batch + 1, joined and added to y."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(rig)
        self.side = driver.stream.create()
        self.forked, self.joined = driver.event.create(), driver.event.create()
        self.batch, self.z = self.pool.take("batch", N), self.pool.take("z", N)
        self.pin = CopyIn("batch", lambda: self.batch)
        upload(self.batch, np.linspace(0, 1, N, dtype=np.float32), self.stream)
        rig.sync()
        self.extra = self._fork

    def _fork(self, number: int) -> None:
        driver.memory.memset_d8_async(self.z.address, 0, self.z.nbytes, self.stream)
        driver.event.record(self.forked, self.stream)
        driver.stream.wait_event(self.side, self.forked)
        self.forward(self.side, BLOCKS, 128, self.z, self.pin, N)
        driver.event.record(self.joined, self.side)
        driver.stream.wait_event(self.stream, self.joined)
        self.update(self.stream, BLOCKS, 128, self.y, self.z, self.rate, N)

    def step(self, **options: Any) -> GraphStep:
        return super().step(pins=[self.pin], **options)

    def close(self) -> None:
        super().close()
        for event in (self.forked, self.joined):
            driver.event.destroy(event)
        driver.stream.destroy(self.side)
