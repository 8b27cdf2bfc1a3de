"""Gated refinement of a hidden state (kernels_cu/gated_update.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes, quads, row_chunks
from lowgraph.precision import Precision

__all__ = ["GatedUpdate"]


class GatedUpdate:
    """next = h + sigmoid(a + gate_bias) * tanh(b + candidate_bias).

    Shapes: h, next and their gradients [rows,channels]; gates [rows,2*channels], in turn the
    products a and b, the values s and t of sigmoid and tanh, and the gradients of a and b; biases
    [channels]; float32. precision: of `narrow`, copies for products: bfloat16 with BF16.
    """

    def __init__(self, library: Library, precision: Precision = Precision.FP32) -> None:
        """Take the kernels from `library`."""
        types, wide = {"act_t": precision.ctype}, {"act_t": Precision.FP32.ctype}
        self._forward = library.kernel("gated_update.cu", "gated_update_forward", types)
        self._backward = library.kernel("gated_update.cu", "gated_update_backward", types)
        self._partial = library.kernel("bias.cu", "column_sum_partial", wide)
        self._final = library.kernel("gated_update.cu", "gated_update_bias_final", types)

    @staticmethod
    def partial_shape(rows: int, channels: int) -> tuple[int, int]:
        """Return the shape of the float32 workspace of `bias_backward`."""
        return (row_chunks(rows).chunks, 2 * channels)

    def forward(
        self,
        stream: Stream,
        next: Pointer,
        gates: Pointer,
        h: Pointer,
        gate_bias: Pointer,
        candidate_bias: Pointer,
        rows: int,
        channels: int,
        *,
        narrow: Pointer = 0,
    ) -> None:
        """Overwrite next, and a and b in gates with s and t; one launch. next may be h.

        narrow [rows,channels], null for none, is overwritten with next.
        """
        grid = _grid(rows, channels)
        if grid:
            biases = gate_bias, candidate_bias
            self._forward(stream, grid, 128, next, narrow, gates, h, *biases, rows, channels)

    def backward(
        self,
        stream: Stream,
        gates: Pointer,
        dnext: Pointer,
        rows: int,
        channels: int,
        *,
        narrow: Pointer = 0,
    ) -> None:
        """Overwrite s and t in gates with the gradients of a and b; one launch.

        narrow [rows,2*channels], null for none, is overwritten with the same.
        dnext is a part of the gradient of h as it is; the other comes through a and b.
        """
        grid = _grid(rows, channels)
        if grid:
            self._backward(stream, grid, 128, gates, narrow, dnext, rows, channels)

    def bias_backward(
        self,
        stream: Stream,
        dgate_bias: Pointer,
        dcandidate_bias: Pointer,
        partial: Pointer,
        gates: Pointer,
        rows: int,
        channels: int,
        *,
        accumulate: bool = False,
    ) -> None:
        """Overwrite both biases' gradients with the column sums of gates; two launches.

        gates: gradients of a and b, of all turns of a loop behind each other. partial: workspace of
        `partial_shape(rows, channels)`. accumulate adds instead.
        """
        if channels == 0:
            return
        _grid(rows, channels)
        count, chunk_rows = row_chunks(rows)
        grid = (ceil_div(2 * channels, 256), count)
        self._partial(stream, grid, 64, partial, gates, rows, 2 * channels, chunk_rows)
        columns = ceil_div(2 * channels, 64)
        biases = dgate_bias, dcandidate_bias
        self._final(stream, columns, 64, *biases, partial, count, channels, accumulate)


def _grid(rows: int, channels: int) -> int:
    check_sizes("GatedUpdate", rows=rows, columns=2 * channels)
    return ceil_div(rows * quads(channels), 128)
