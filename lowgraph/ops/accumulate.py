"""Gradient accumulation over the micro-batches of a step (kernels_cu/accumulate.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div

__all__ = ["Accumulate"]


class Accumulate:
    """total += scale * grad over a flat arena, and the same of the loss, float32.

    In the order of the calls, one fused multiply-add an element: repeatable bit for bit.
    """

    def __init__(self, library: Library) -> None:
        """Take the kernel from `library`."""
        self._add = library.kernel("accumulate.cu", "accumulate")

    def add(
        self,
        stream: Stream,
        total: Pointer,
        loss_total: Pointer,
        grad: Pointer,
        loss: Pointer,
        scale: float,
        n: int,
        *,
        overwrite: bool,
    ) -> None:
        """Add scale * grad to total [n] and scale * loss to loss_total [1]; one launch.

        overwrite: the totals are not read, as for the first of a sum.
        """
        grid = max(1, ceil_div(n, 2048))
        self._add(stream, grid, 128, total, loss_total, grad, loss, scale, overwrite, n)
