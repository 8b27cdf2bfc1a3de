"""Root-mean-square norm of a gated input (kernels_cu/gated_norm.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Fork, Pointer, Stream, behind, ceil_div, check_sizes
from lowgraph.precision import Precision

__all__ = ["GatedRmsNorm"]

_BLOCK = 256
_ROWS_A_BLOCK = 16  # sixteen threads a row
_MOST_CHUNKS = 128  # of dweight: the second launch adds them one by one


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
        self._final = library.kernel("bias.cu", "column_sum_final", types)

    @staticmethod
    def partial_shape(rows: int, channels: int) -> tuple[int, int]:
        """Return the shape of backward's float32 workspace."""
        return (_chunks(rows)[0], channels)

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
        side: Fork | None = None,
    ) -> None:
        """Overwrite dx and dz [rows,channels] and dweight [channels]; two launches.

        partial: workspace of `partial_shape(rows, channels)`. accumulate adds to dweight instead.
        side: for the second launch, which leaves dweight. dx may be dy.
        """
        row = _row(rows, channels, z_row)
        chunks, turns = _chunks(rows)
        if rows:
            tensors = (dx, dz, partial, dy, x, z, weight, rstd)
            self._backward(stream, chunks, _BLOCK, *tensors, rows, channels, row, turns)
        columns, count = ceil_div(channels, 64), chunks if rows else 0
        self._final(
            behind(stream, side), columns, 64, dweight, partial, count, channels, accumulate
        )


def _chunks(rows: int) -> tuple[int, int]:
    """How many parts dweight is summed in, and the turns of a part's block.

    A function of the shape alone, as the order of sums is with it.
    """
    blocks = ceil_div(rows, _ROWS_A_BLOCK)
    turns = max(1, ceil_div(blocks, _MOST_CHUNKS))
    return max(1, ceil_div(blocks, turns)), turns


def _row(rows: int, channels: int, z_row: int | None) -> int:
    """Check the sizes; the distance of z's rows."""
    row = channels if z_row is None else z_row
    check_sizes("GatedRmsNorm", rows=rows)
    check_sizes("GatedRmsNorm", least=1, channels=channels)
    check_sizes("GatedRmsNorm", least=channels, z_row=row)
    return row
