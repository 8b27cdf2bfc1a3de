"""Causal depthwise convolution over time with bias and SiLU (kernels_cu/conv1d.cu)."""

from __future__ import annotations

from lowgraph.errors import ConfigError
from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes, quads, row_chunks

__all__ = ["CausalConv1d"]

_TIMES = 8  # time steps a thread
_WIDEST = 8


class CausalConv1d:
    """y = silu(bias[c] + sum over k of weight[c,k] * x[b,t-(width-1)+k,c]); float32.

    x before t = 0 is zero. width: taps, 1 to 8; Mamba has 4 (Gu, Dao 2023). Raises ConfigError for
    another width.

    Shapes: x, y and their gradients [batch,length,channels]; weight [channels,width]; bias
    [channels]. x and dx may be columns of a wider matrix: x_row is the distance of their time steps
    in elements, `channels` where it is not given.
    """

    def __init__(self, library: Library, width: int = 4) -> None:
        """Take the kernels from `library`, compiled for this width."""
        if not 1 <= width <= _WIDEST:
            raise ConfigError(f"CausalConv1d: width must be 1 to {_WIDEST}, got {width}")
        defines = {"CONV_WIDTH": width}
        self.width = width
        self._forward = library.kernel("conv1d.cu", "conv1d_forward", defines)
        self._pre = library.kernel("conv1d.cu", "conv1d_backward_pre", defines)
        self._input = library.kernel("conv1d.cu", "conv1d_backward_input", defines)
        self._partial = library.kernel("conv1d.cu", "conv1d_backward_partial", defines)
        self._final = library.kernel("conv1d.cu", "conv1d_backward_final", defines)

    def partial_shape(self, batch: int, length: int, channels: int) -> tuple[int, int, int]:
        """Return the shape of backward's float32 workspace."""
        return (row_chunks(batch * length).chunks, self.width + 1, channels)

    def forward(
        self,
        stream: Stream,
        y: Pointer,
        x: Pointer,
        weight: Pointer,
        bias: Pointer,
        batch: int,
        length: int,
        channels: int,
        *,
        x_row: int | None = None,
    ) -> None:
        """Overwrite y; one launch."""
        grid = _grid(batch, length, channels)
        row = _row(x_row, channels)
        if grid:
            self._forward(stream, grid, 128, y, x, weight, bias, batch, length, channels, row)

    def backward(
        self,
        stream: Stream,
        dx: Pointer,
        dweight: Pointer,
        dbias: Pointer,
        dpre: Pointer,
        partial: Pointer,
        dy: Pointer,
        x: Pointer,
        weight: Pointer,
        bias: Pointer,
        batch: int,
        length: int,
        channels: int,
        *,
        x_row: int | None = None,
        accumulate: bool = False,
    ) -> None:
        """Overwrite dx, dweight and dbias; four launches.

        dpre: float32 workspace like x, which may be dy. partial: workspace of `partial_shape`.
        accumulate adds to dweight and dbias instead. dx must not be dpre: a neighbour's gradient is
        still to be read there.
        """
        grid = _grid(batch, length, channels)
        row = _row(x_row, channels)
        sizes = (batch, length, channels, row)
        if grid:
            self._pre(stream, grid, 128, dpre, dy, x, weight, bias, *sizes)
            self._input(stream, grid, 128, dx, dpre, weight, *sizes)
        if channels == 0:
            return
        rows = batch * length
        count, chunk_rows = row_chunks(rows)
        chunks = (ceil_div(channels, 256), count)
        self._partial(stream, chunks, 64, partial, dpre, x, rows, length, channels, chunk_rows, row)
        columns = ceil_div(channels, 64)
        self._final(stream, columns, 64, dweight, dbias, partial, count, channels, accumulate)


def _row(x_row: int | None, channels: int) -> int:
    row = channels if x_row is None else x_row
    check_sizes("CausalConv1d", least=channels, x_row=row)
    return row


def _grid(batch: int, length: int, channels: int) -> int:
    check_sizes("CausalConv1d", batch=batch, length=length, channels=channels)
    check_sizes("CausalConv1d", rows=batch * length)
    return ceil_div(batch * ceil_div(length, _TIMES) * quads(channels), 128)
