"""Root-mean-square norm of a residual stream (kernels_cu/rms_norm.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Fork, Pointer, Stream, behind, ceil_div, check_sizes, row_chunks
from lowgraph.precision import Precision

__all__ = ["RmsNorm"]

_BLOCK = 128
_ROWS_A_BLOCK = 16  # eight threads a row


class RmsNorm:
    """y = u * rstd * weight over rows of `channels` values, u = x or x + branch.

    rstd = 1 / sqrt(average(u^2) + epsilon). Zhang, Sennrich 2019. precision: y and dy are bfloat16
    with BF16; everything else, and they otherwise, float32.
    """

    def __init__(
        self, library: Library, epsilon: float = 1e-5, precision: Precision = Precision.FP32
    ) -> None:
        """Take the kernels from `library`."""
        self.epsilon = epsilon
        types = {"act_t": precision.ctype}
        self._forward = library.kernel("rms_norm.cu", "rms_norm_forward", types)
        self._backward = library.kernel("rms_norm.cu", "rms_norm_backward", types)
        self._partial = library.kernel("rms_norm.cu", "rms_norm_backward_partial", types)
        self._final = library.kernel("bias.cu", "column_sum_final", types)

    @staticmethod
    def partial_shape(rows: int, channels: int) -> tuple[int, int]:
        """Return the shape of backward's float32 workspace."""
        return (row_chunks(rows).chunks, channels)

    def forward(
        self,
        stream: Stream,
        y: Pointer,
        rstd: Pointer,
        x: Pointer,
        weight: Pointer,
        rows: int,
        channels: int,
    ) -> None:
        """Overwrite y [rows,channels] and rstd [rows]; one launch. u is x."""
        self._launch(stream, y, rstd, 0, x, 0, weight, rows, channels)

    def add_forward(
        self,
        stream: Stream,
        y: Pointer,
        rstd: Pointer,
        sum: Pointer,
        x: Pointer,
        branch: Pointer,
        weight: Pointer,
        rows: int,
        channels: int,
    ) -> None:
        """Overwrite sum with u = x + branch, and y and rstd as `forward` does; one launch.

        sum may be x or branch.
        """
        self._launch(stream, y, rstd, sum, x, branch, weight, rows, channels)

    def backward(
        self,
        stream: Stream,
        dx: Pointer,
        dweight: Pointer,
        partial: Pointer,
        dy: Pointer,
        u: Pointer,
        weight: Pointer,
        rstd: Pointer,
        rows: int,
        channels: int,
        *,
        add_dx: bool = False,
        accumulate: bool = False,
        narrow: Pointer = 0,
        side: Fork | None = None,
    ) -> None:
        """Overwrite dx [rows,channels], the gradient of u, and dweight [channels]; three launches.

        partial: workspace of `partial_shape(rows, channels)`. add_dx adds to dx instead (the
        stream's own gradient is already there); accumulate adds to dweight. narrow [rows,channels],
        null for none, is overwritten with dx in the type of dy. side: for the two launches that
        leave dweight. dx may be dy where that is float32 and there is no side.
        """
        _check(rows, channels)
        count, chunk_rows = row_chunks(rows)
        grid = (ceil_div(channels, 256), count)
        sums = behind(stream, side)
        self._partial(sums, grid, 64, partial, dy, u, rstd, rows, channels, chunk_rows)
        columns = ceil_div(channels, 64)
        self._final(sums, columns, 64, dweight, partial, count, channels, accumulate)
        if rows == 0:
            return
        blocks = ceil_div(rows, _ROWS_A_BLOCK)
        self._backward(
            stream, blocks, _BLOCK, dx, narrow, dy, u, weight, rstd, rows, channels, add_dx
        )

    def _launch(
        self,
        stream: Stream,
        y: Pointer,
        rstd: Pointer,
        sum: Pointer,
        x: Pointer,
        branch: Pointer,
        weight: Pointer,
        rows: int,
        channels: int,
    ) -> None:
        _check(rows, channels)
        if rows:
            grid = ceil_div(rows, _ROWS_A_BLOCK)
            self._forward(
                stream, grid, _BLOCK, y, rstd, sum, x, branch, weight, rows, channels, self.epsilon
            )


def _check(rows: int, channels: int) -> None:
    check_sizes("RmsNorm", rows=rows)
    check_sizes("RmsNorm", least=1, channels=channels)
