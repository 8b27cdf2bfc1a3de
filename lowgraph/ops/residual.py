"""Residual connections (kernels_cu/residual.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes, quads

__all__ = ["Residual"]


class Residual:
    """out = residual + x, with or without the bias of the linear layer that made x; float32.

    Backward needs no launch: both inputs receive dout. Where a branch's gradient joins it again,
    `LayerNorm.backward(add_dx=True)` adds.
    """

    def __init__(self, library: Library) -> None:
        """Take the kernels from `library`."""
        self._add = library.kernel("residual.cu", "residual_add")
        self._bias_add = library.kernel("residual.cu", "residual_bias_add")

    def add(self, stream: Stream, out: Pointer, a: Pointer, b: Pointer, count: int) -> None:
        """Overwrite out with a + b, `count` elements; one launch. out may be a or b."""
        check_sizes("Residual", count=count)
        if count:
            self._add(stream, ceil_div(count, 512), 128, out, a, b, count)

    def bias_add(
        self,
        stream: Stream,
        out: Pointer,
        residual: Pointer,
        x: Pointer,
        bias: Pointer,
        rows: int,
        channels: int,
    ) -> None:
        """Overwrite out [rows,channels] with residual + (x + bias); one launch.

        out may be residual or x.
        """
        check_sizes("Residual", rows=rows, channels=channels)
        if rows * channels == 0:
            return
        grid = ceil_div(rows * quads(channels), 128)
        self._bias_add(stream, grid, 128, out, residual, x, bias, rows, channels)
