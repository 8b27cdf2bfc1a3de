"""Bias of a linear layer, and its gradient by column sums (kernels_cu/bias.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes, quads, row_chunks
from lowgraph.precision import Precision

__all__ = ["Bias"]


class Bias:
    """y[r,c] += bias[c] over rows of `channels` values.

    precision: y and dy are bfloat16 with BF16; everything else, and they otherwise, float32.
    bias: of the bias alone; BF16 only where y is, too.
    """

    def __init__(
        self,
        library: Library,
        precision: Precision = Precision.FP32,
        bias: Precision = Precision.FP32,
    ) -> None:
        """Take the kernels from `library`."""
        types = {"act_t": precision.ctype, "bias_t": bias.ctype}
        self._add = library.kernel("bias.cu", "bias_add", types)
        self._partial = library.kernel("bias.cu", "column_sum_partial", types)
        self._final = library.kernel("bias.cu", "column_sum_final", types)

    @staticmethod
    def partial_shape(rows: int, channels: int) -> tuple[int, int]:
        """Return the shape of backward's float32 workspace."""
        return (row_chunks(rows).chunks, channels)

    def forward(self, stream: Stream, y: Pointer, bias: Pointer, rows: int, channels: int) -> None:
        """Add bias [channels] to y [rows,channels] in place; one launch."""
        check_sizes("Bias", rows=rows, channels=channels)
        if rows * channels == 0:
            return
        self._add(stream, ceil_div(rows * quads(channels), 128), 128, y, bias, rows, channels)

    def backward(
        self,
        stream: Stream,
        dbias: Pointer,
        partial: Pointer,
        dy: Pointer,
        rows: int,
        channels: int,
        *,
        accumulate: bool = False,
    ) -> None:
        """Overwrite dbias [channels] with the column sums of dy [rows,channels]; two launches.

        partial: workspace of `partial_shape(rows, channels)`. accumulate adds to dbias instead.
        """
        check_sizes("Bias", rows=rows, channels=channels)
        if channels == 0:
            return
        count, chunk_rows = row_chunks(rows)
        grid = (ceil_div(channels, 256), count)
        self._partial(stream, grid, 64, partial, dy, rows, channels, chunk_rows)
        columns = ceil_div(channels, 64)
        self._final(stream, columns, 64, dbias, partial, count, channels, accumulate)
