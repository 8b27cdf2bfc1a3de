"""Gradient accumulation: a step of several micro-batches, whose mean gradient the optimizer reads.

total = Accumulation(library, model.gradients, micro_batches=4)
optimizer = AdamW(library, model.parameters, total.gradients, ...)

def body(stream):
    for index in range(total.micro_batches):
        ...forward and backward of micro-batch `index`, which overwrite model.gradients...
        total.add(stream, model.gradients, loss, index)
    norm.measure(stream, total.gradients, control)
    optimizer.step(stream, control, norm.stats)
"""

from __future__ import annotations

import numpy as np

from lowgraph import ops
from lowgraph.errors import ConfigError
from lowgraph.integers import integer
from lowgraph.kernels import Library
from lowgraph.memory import Arena, Slice

__all__ = ["Accumulation"]


class Accumulation:
    """The mean of the gradients, and of the losses, of `micro_batches` micro-batches.

    like: an arena of the gradients' layout. micro_batches: 1 or more, of one size each, so that the
    mean of their means is the mean over all. With 1 this is a copy: have the optimizer read the
    gradients instead. Raises ConfigError below 1.

    Attributes
    ----------
    gradients: the mean, an arena laid out as the given one; complete once the last was added.
    loss: float32 [1], likewise.
    """

    def __init__(self, library: Library, like: Arena, micro_batches: int) -> None:
        self.micro_batches = integer(micro_batches, "micro_batches", 1)
        self.gradients = like.like("accumulated gradients")
        self.loss: Slice = like.pool.take("accumulated loss", 1, np.float32)
        self._kernel = ops.Accumulate(library)

    def add(self, stream: int, gradients: Arena, loss: Slice, index: int) -> None:
        """Add gradients and loss [1] of micro-batch `index` (0 overwrites); one launch.

        Raises ConfigError for an index that the step does not have, or an arena of another layout.
        """
        if gradients.layout != self.gradients.layout:
            raise ConfigError(f"{gradients.name} has another layout than {self.gradients.name}")
        if not 0 <= index < self.micro_batches:
            raise ConfigError(f"micro-batch {index} of {self.micro_batches}: count from 0")
        self._kernel.add(
            stream,
            self.gradients.flat,
            self.loss,
            gradients.flat,
            loss,
            1.0 / self.micro_batches,
            self.gradients.elements,
            overwrite=index == 0,
        )

    def close(self) -> None:
        """Give the memory back. Idempotent."""
        self.gradients.close()
        if self.loss.alive:
            self.gradients.pool.give_back(self.loss)
