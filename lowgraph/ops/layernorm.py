"""Layer normalisation over the last axis (kernels_cu/layernorm.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes, row_chunks
from lowgraph.precision import Precision

__all__ = ["LayerNorm"]

_BLOCK = 128
_ROWS_A_BLOCK = 16  # eight threads a row


class LayerNorm:
    """y = (x - mean) * rstd * weight + bias, over rows of `channels` values.

    epsilon is added to the (biased) variance. Ba, Kiros, Hinton 2016. precision: y and dy are
    bfloat16 with BF16; everything else, and they otherwise, float32.
    """

    def __init__(
        self, library: Library, epsilon: float = 1e-5, precision: Precision = Precision.FP32
    ) -> None:
        """Take the kernels from `library`."""
        self.epsilon = epsilon
        types = {"act_t": precision.ctype}
        self._forward = library.kernel("layernorm.cu", "layernorm_forward", types)
        self._backward = library.kernel("layernorm.cu", "layernorm_backward", types)
        self._partial = library.kernel("layernorm.cu", "layernorm_backward_partial", types)
        self._final = library.kernel("layernorm.cu", "layernorm_backward_final", types)

    @staticmethod
    def partial_shape(rows: int, channels: int) -> tuple[int, int, int]:
        """Return the shape of backward's float32 workspace."""
        return (row_chunks(rows).chunks, 2, channels)

    def forward(
        self,
        stream: Stream,
        y: Pointer,
        mean: Pointer,
        rstd: Pointer,
        x: Pointer,
        weight: Pointer,
        bias: Pointer,
        rows: int,
        channels: int,
    ) -> None:
        """Overwrite y [rows,channels], mean [rows] and rstd [rows]; one launch."""
        check_sizes("LayerNorm", rows=rows)
        check_sizes("LayerNorm", least=1, channels=channels)
        if rows == 0:
            return
        grid = ceil_div(rows, _ROWS_A_BLOCK)
        self._forward(
            stream, grid, _BLOCK, y, mean, rstd, x, weight, bias, rows, channels, self.epsilon
        )

    def backward(
        self,
        stream: Stream,
        dx: Pointer,
        dweight: Pointer,
        dbias: Pointer,
        partial: Pointer,
        dy: Pointer,
        x: Pointer,
        weight: Pointer,
        mean: Pointer,
        rstd: Pointer,
        rows: int,
        channels: int,
        *,
        add_dx: bool = False,
        accumulate: bool = False,
        narrow: Pointer = 0,
    ) -> None:
        """Overwrite dx [rows,channels], dweight and dbias [channels]; three launches.

        partial: workspace of `partial_shape(rows, channels)`. add_dx adds to dx instead (the
        gradient of a residual branch is already there); accumulate adds to dweight and dbias.
        narrow [rows,channels], null for none, is overwritten with dx in the type of dy.
        dx may be dy, where that is float32, only if dy is not needed afterwards: the parameters'
        gradients come first.
        """
        check_sizes("LayerNorm", rows=rows)
        check_sizes("LayerNorm", least=1, channels=channels)
        count, chunk_rows = row_chunks(rows)
        grid = (ceil_div(channels, 256), count)
        self._partial(stream, grid, 64, partial, dy, x, mean, rstd, rows, channels, chunk_rows)
        columns = ceil_div(channels, 64)
        self._final(stream, columns, 64, dweight, dbias, partial, count, channels, accumulate)
        if rows == 0:
            return
        blocks = ceil_div(rows, _ROWS_A_BLOCK)
        self._backward(
            stream, blocks, _BLOCK, dx, narrow, dy, x, weight, mean, rstd, rows, channels, add_dx
        )
