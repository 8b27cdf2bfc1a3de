"""Device memory of somebody else's, and buffers over it."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowgraph import driver
from lowgraph.interop import ForeignBuffer
from tests.embedding.small import N, Small


class Theirs:
    """Allocations that are none of the pool's."""

    def __init__(self, small: Small) -> None:
        self.small = small
        self._live: set[int] = set()

    def alloc(self, value: float) -> int:
        address = driver.memory.alloc(4 * N)
        self._live.add(address)
        word = int(np.float32(value).view(np.uint32))
        driver.memory.memset_d32_async(address, word, N, self.small.stream)
        self.small.rig.sync()
        return address

    def free(self, address: int) -> None:
        self._live.discard(address)
        driver.memory.free(address)

    def close(self) -> None:
        self.small.rig.sync()
        for address in list(self._live):
            self.free(address)


def buffer_at(address: int, **options: Any) -> ForeignBuffer:
    return ForeignBuffer(address, 4 * N, **{"owner": None, "shape": (N,), "dtype": "f4",
                                            "name": "weights", **options})  # fmt: skip
