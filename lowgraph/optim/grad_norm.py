"""The global norm of the gradients, measured on the device once a step."""

from __future__ import annotations

import numpy as np

from lowgraph import ops
from lowgraph.errors import ConfigError
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool, Slice, download, fill_zero, upload
from lowgraph.ops.grad_norm import STATS_DTYPE, GradientStats, new_stats, read_stats, stats_bytes
from lowgraph.ops.shapes import Pointer

__all__ = ["GradientNorm"]


class GradientNorm:
    """Norm, clip coefficient and elements that are not finite, of an arena of gradients.

    elements: of the arena, padding included. The limit is `clip_norm` of the control block; 0 clips
    nothing, and the norm is still measured.

    Attributes
    ----------
    stats: 40 bytes on the device (`ops.grad_norm.STATS_DTYPE`), which the optimizer and the loss
        ring read. Its totals begin at zero here, or where `set_totals` puts them.
    """

    def __init__(self, library: Library, pool: PersistentPool, elements: int, stream: int) -> None:
        self.elements = elements
        self._pool = pool
        self._kernels = ops.GradientNorm(library)
        shape = self._kernels.partial_shape(elements)
        self._partial = pool.take("gradient norm: partial sums", shape, np.float64)
        self.stats: Slice = pool.take("gradient stats", STATS_DTYPE.itemsize, np.uint8)
        fill_zero(self.stats, stream)

    def measure(self, stream: int, gradients: Arena, control: Pointer) -> None:
        """Rewrite `stats` for the gradients as they are, which are only read; one launch.

        gradients: float32, padding zero as `Arena.zero` leaves it: padding is measured too.
        control: the control block, advanced to this step.
        Raises ConfigError for an arena of another size.
        """
        n = self.elements
        if gradients.elements != n:
            raise ConfigError(
                f"GradientNorm: made for {n} elements, {gradients.name} has {gradients.elements}; "
                "make one for each arena"
            )
        self._kernels.measure(stream, self.stats, self._partial, gradients.flat, control, n)

    def set_totals(self, stream: int, masked: int, steps: int) -> None:
        """Go on from the totals of the steps before: masked elements, and steps with any."""
        stats = new_stats()
        stats["masked_total"], stats["masked_steps"] = masked, steps
        upload(self.stats, stats_bytes(stats), stream)

    def read(self, stream: int) -> GradientStats:
        """The stats behind the stream's work so far. Waits for it."""
        return read_stats(download(self.stats, stream))

    def close(self) -> None:
        """Give the memory back. Idempotent."""
        for piece in (self._partial, self.stats):
            if piece.alive:
                self._pool.give_back(piece)
