"""Root-mean-square norm of a gated input (kernels_cu/gated_norm.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes, row_chunks
from lowgraph.precision import Precision

__all__ = ["GatedRmsNorm"]

_BLOCK = 128
_ROWS_A_BLOCK = 16  # eight threads a row


class GatedRmsNorm:
    """y = u * rstd * weight, u = x * silu(z), over rows of `channels` values.

    rstd = 1 / sqrt(average(u^2) + epsilon). The norm before Mamba-2's output projection (Dao, Gu
    2024), with the gate inside. z and dz may be columns of a wider matrix: z_row is the distance of
    their rows in elements, `channels` where it is not given. precision: y is bfloat16 with BF16;
    all else, and y otherwise, float32.
    """

    def __init__(
        self, library: Library, epsilon: float = 1e-5, precision: Precision = Precision.FP32
    ) -> None:
        """Take the kernels from `library`."""
        self.epsilon = epsilon
        types = {"act_t": precision.ctype}
        self._forward = library.kernel("gated_norm.cu", "gated_norm_forward", types)
        self._backward = library.kernel("gated_norm.cu", "gated_norm_backward", types)
        self._partial = library.kernel("gated_norm.cu", "gated_norm_backward_partial", types)
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
        z: Pointer,
        weight: Pointer,
        rows: int,
        channels: int,
        *,
        z_row: int | None = None,
    ) -> None:
        """Overwrite y [rows,channels] and rstd [rows]; one launch."""
        row = _row(rows, channels, z_row)
        if rows == 0:
            return
        grid = ceil_div(rows, _ROWS_A_BLOCK)
        self._forward(
            stream, grid, _BLOCK, y, rstd, x, z, weight, rows, channels, row, self.epsilon
        )

    def backward(
        self,
        stream: Stream,
        dx: Pointer,
        dz: Pointer,
        dweight: Pointer,
        partial: Pointer,
        dy: Pointer,
        x: Pointer,
        z: Pointer,
        weight: Pointer,
        rstd: Pointer,
        rows: int,
        channels: int,
        *,
        z_row: int | None = None,
        accumulate: bool = False,
    ) -> None:
        """Overwrite dx and dz [rows,channels] and dweight [channels]; three launches.

        partial: workspace of `partial_shape(rows, channels)`. accumulate adds to dweight instead.
        dx may be dy.
        """
        row = _row(rows, channels, z_row)
        count, chunk_rows = row_chunks(rows)
        grid = (ceil_div(channels, 256), count)
        self._partial(stream, grid, 64, partial, dy, x, z, rstd, rows, channels, row, chunk_rows)
        columns = ceil_div(channels, 64)
        self._final(stream, columns, 64, dweight, partial, count, channels, accumulate)
        if rows == 0:
            return
        blocks = ceil_div(rows, _ROWS_A_BLOCK)
        self._backward(stream, blocks, _BLOCK, dx, dz, dy, x, z, weight, rstd, rows, channels, row)


def _row(rows: int, channels: int, z_row: int | None) -> int:
    """Check the sizes; the distance of z's rows."""
    row = channels if z_row is None else z_row
    check_sizes("GatedRmsNorm", rows=rows)
    check_sizes("GatedRmsNorm", least=1, channels=channels)
    check_sizes("GatedRmsNorm", least=channels, z_row=row)
    return row
