"""Causal depthwise convolution over time with bias and SiLU (kernels_cu/conv1d.cu)."""

from __future__ import annotations

from lowgraph.errors import ConfigError
from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes

__all__ = ["CausalConv1d"]

_BLOCK = 256
_CHANNELS, _STEPS = 64, 64  # of a block; time steps at a time
_MOST_CHUNKS = 128  # of the parameters' gradients: the second launch adds them one by one
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
        self._backward = library.kernel("conv1d.cu", "conv1d_backward", defines)
        self._final = library.kernel("conv1d.cu", "conv1d_backward_final", defines)

    def partial_shape(self, batch: int, length: int, channels: int) -> tuple[int, int, int]:
        """Return the shape of backward's float32 workspace."""
        return (_chunks(batch, length)[0], self.width + 1, channels)

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
            self._forward(stream, grid, _BLOCK, y, x, weight, bias, batch, length, channels, row)

    def backward(
        self,
        stream: Stream,
        dx: Pointer,
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
    ) -> None:
        """Overwrite dx; one launch.

        partial: workspace of `partial_shape`, which `backward_parameters` reads. dx must not be dy:
        a neighbour's gradient is still to be read there.
        """
        grid = _grid(batch, length, channels)
        row = _row(x_row, channels)
        if grid:
            chunks, turns = _chunks(batch, length)
            tensors = (dx, partial, dy, x, weight, bias)
            sizes = (batch, length, channels, row, turns)
            self._backward(stream, (chunks, grid[1]), _BLOCK, *tensors, *sizes)

    def backward_parameters(
        self,
        stream: Stream,
        dweight: Pointer,
        dbias: Pointer,
        partial: Pointer,
        batch: int,
        length: int,
        channels: int,
        *,
        accumulate: bool = False,
    ) -> None:
        """Overwrite dweight and dbias; one launch.

        partial: as `backward` left it, of these sizes. accumulate adds instead.
        """
        filled = _grid(batch, length, channels)
        if channels == 0:
            return
        count = _chunks(batch, length)[0] if filled else 0
        grid, sums = (ceil_div(channels, 64), self.width + 1), (dweight, dbias, partial)
        self._final(stream, grid, 64, *sums, count, channels, accumulate)


def _row(x_row: int | None, channels: int) -> int:
    row = channels if x_row is None else x_row
    check_sizes("CausalConv1d", least=channels, x_row=row)
    return row


def _chunks(batch: int, length: int) -> tuple[int, int]:
    """How many parts the parameters' gradients are summed in, and the turns of a part's block.

    A function of the shape alone, as the order of sums is with it.
    """
    blocks = batch * ceil_div(length, _STEPS)
    turns = max(1, ceil_div(blocks, _MOST_CHUNKS))
    return max(1, ceil_div(blocks, turns)), turns


def _grid(batch: int, length: int, channels: int) -> tuple[int, int] | None:
    """The blocks of a launch over everything; None where there is nothing."""
    check_sizes("CausalConv1d", batch=batch, length=length, channels=channels)
    check_sizes("CausalConv1d", rows=batch * length)
    if not batch * length * channels:
        return None
    return batch * ceil_div(length, _STEPS), ceil_div(channels, _CHANNELS)
