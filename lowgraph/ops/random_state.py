"""Random state on the device: {seed, offset}, advanced once a step by what the step drew.

    random = RandomState(pool=pool, library=library, stream=stream, seed=1)
    def body(stream):
        with random.step(stream) as draws:      # its end launches the one advance
            dropout.forward(stream, y, saved, x, draws, 0.1, count)
            ...
            dropout.backward(stream, dx, dy, saved, 0.1, count)

A seed or an offset passed by value would be the same in every replay. Here each replay begins where
the last one ended, and `seed()` reaches a graph that is recorded already. Each draw of a step takes
counters of its own behind the state's offset; backward makes the same numbers again from the seed
and counter that forward saved. The layout is kernels_cu/common/random.cuh's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lowgraph.errors import PhaseError
from lowgraph.integers import integer
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, Slice, download, upload
from lowgraph.ops.shapes import Stream

__all__ = ["RANDOM_STATE_DTYPE", "Draws", "RandomState"]

RANDOM_STATE_DTYPE: np.dtype[Any] = np.dtype([("seed", np.uint64), ("offset", np.uint64)])
"""One state, 16 bytes."""


class Draws:
    """What one step draws. address: of the state. taken: counters so far, four numbers each."""

    def __init__(self, address: int) -> None:
        self.address = address
        self.taken = 0

    def take(self, counters: int) -> int:
        """Reserve the next `counters` of the step; returns the first, relative to the offset."""
        first, self.taken = self.taken, self.taken + counters
        return first


class RandomState:
    """See the module.

    name: in the report. draws: counters that the last step took, four 32-bit numbers each.
    """

    def __init__(
        self,
        *,
        pool: PersistentPool,
        library: Library,
        stream: Stream,
        seed: int = 0,
        name: str = "random state",
    ) -> None:
        """Take 16 bytes of the pool and enqueue the seed. stream: the one that the step runs on."""
        self.name = name
        self.draws = 0
        self._stream = stream
        self._advance = library.kernel("dropout.cu", "random_advance")
        self._slice: Slice = pool.take(name, 2, np.uint64)
        self._pool = pool
        self._open = False
        self.seed(seed)

    @property
    def address(self) -> int:
        """Device address of the state."""
        return self._slice.address

    def seed(self, value: int) -> None:
        """Begin the sequence of `value`, in stream order: replays in flight draw as before.

        Refused in a capture window (CaptureRefused). Raises ConfigError unless it is an integer
        of 64 bits.
        """
        self.write(value, 0)

    def write(self, seed: int, offset: int) -> None:
        """`seed`, and go on at `offset`: what a checkpoint has from `read`."""
        given = ("seed", seed), ("offset", offset)
        state = [integer(value, f"{self.name}: {name}", 0, 2**64 - 1) for name, value in given]
        upload(self._slice, np.array(state, np.uint64), self._stream)

    def read(self) -> tuple[int, int]:
        """(seed, offset) behind the work so far. Waits for it."""
        seed, offset = download(self._slice, self._stream)
        return int(seed), int(offset)

    @contextmanager
    def step(self, stream: Stream) -> Iterator[Draws]:
        """What the body draws from; its end advances the offset past it, by one launch.

        A body that raises advances nothing. Raises PhaseError when a step is open already.
        """
        if self._open:
            raise PhaseError(f"{self.name}: a step is open already; one advance a step")
        self._open = True
        try:
            draws = Draws(self.address)
            yield draws
        finally:
            self._open = False
        self.draws = draws.taken
        if draws.taken:
            self._advance(stream, 1, 1, self._slice, draws.taken)

    def close(self) -> None:
        """Give the memory back. Idempotent; the graph that draws from it keeps it till then."""
        if self._slice.alive:
            self._pool.give_back(self._slice)
