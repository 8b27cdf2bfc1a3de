"""A linear layer with one output (kernels_cu/readout.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Fork, Pointer, Stream, behind, ceil_div, check_sizes

__all__ = ["Readout"]

_BLOCK = 256
_ROWS_A_BLOCK = 16
_COLUMNS_A_BLOCK = 128  # in backward
_MOST_CHUNKS = 128


class Readout:
    """y[r] = x[r] . weight + bias, over rows of `channels` values; float32, nothing is rounded.

    A product with one column keeps a product's kernel waiting for memory: sums of rows do it, and
    take the bias along. Shapes: x and dx [rows,channels]; y and dy [rows]; weight [channels]; bias
    [1].
    """

    def __init__(self, library: Library) -> None:
        """Take the kernels from `library`."""
        self._forward = library.kernel("readout.cu", "readout_forward")
        self._backward = library.kernel("readout.cu", "readout_backward")
        self._final = library.kernel("readout.cu", "readout_backward_final")

    @staticmethod
    def partial_shape(rows: int, channels: int) -> tuple[int, int]:
        """Return the shape of backward's float32 workspace."""
        return (_chunks(rows)[0], channels + 1)

    def forward(
        self,
        stream: Stream,
        y: Pointer,
        x: Pointer,
        weight: Pointer,
        bias: Pointer,
        rows: int,
        channels: int,
    ) -> None:
        """Overwrite y; one launch."""
        _check(rows, channels)
        if rows:
            grid = ceil_div(rows, _ROWS_A_BLOCK)
            self._forward(stream, grid, _BLOCK, y, x, weight, bias, rows, channels)

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
        rows: int,
        channels: int,
        *,
        accumulate: bool = False,
        side: Fork | None = None,
    ) -> None:
        """Overwrite dx, dweight and dbias; two launches.

        partial: workspace of `partial_shape(rows, channels)`. accumulate adds to dweight and dbias
        instead. side: for the second launch, which leaves dweight and dbias. dx must not be x.
        """
        _check(rows, channels)
        chunks, chunk_rows = _chunks(rows)
        if rows:
            grid = (chunks, ceil_div(channels, _COLUMNS_A_BLOCK))
            tensors = (dx, partial, dy, x, weight)
            self._backward(stream, grid, _BLOCK, *tensors, rows, channels, chunk_rows)
        columns, count = ceil_div(channels + 1, 64), chunks if rows else 0
        sums = dweight, dbias, partial
        self._final(behind(stream, side), columns, 64, *sums, count, channels, accumulate)


def _check(rows: int, channels: int) -> None:
    check_sizes("Readout", rows=rows)
    check_sizes("Readout", least=1, channels=channels)


def _chunks(rows: int) -> tuple[int, int]:
    """How many parts a sum over rows is made of, and the rows of each.

    A function of the rows alone, as the order of sums is with it.
    """
    each = max(_ROWS_A_BLOCK, ceil_div(rows, _MOST_CHUNKS))
    return max(1, ceil_div(rows, each)), each
