"""A linear layer with one output (kernels_cu/readout.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes

__all__ = ["Readout"]

_BLOCK = 256
_BLOCK_WITH_LOSS = _BLOCK + 32  # a warp has the loss
_ROWS_A_BLOCK = 16
_MOST_CHUNKS = 128


class Readout:
    """y[r] = x[r] . weight + bias, over rows of `channels` values; float32, nothing is rounded.

    A product with one column keeps a product's kernel waiting for memory: sums of rows do it, and
    take the bias along. Shapes: x and dx [rows,channels]; y and targets [rows]; weight [channels];
    bias [1].
    """

    def __init__(self, library: Library) -> None:
        """Take the kernels from `library`."""
        self._forward = library.kernel("readout.cu", "readout_forward")
        self._bce = library.kernel("readout.cu", "readout_bce")
        self._final = library.kernel("readout.cu", "readout_backward_final")

    @staticmethod
    def partial_shape(rows: int, channels: int) -> tuple[int, int]:
        """Return the shape of the gradients' float32 workspace."""
        return (_chunks(rows)[0], channels + 1)

    @staticmethod
    def losses_shape(rows: int) -> tuple[int]:
        """Return the shape of the loss's float64 workspace."""
        return (_chunks(rows)[0],)

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

    def bce_and_gradient(
        self,
        stream: Stream,
        loss: Pointer,
        dx: Pointer,
        partial: Pointer,
        losses: Pointer,
        ticket: Pointer,
        x: Pointer,
        weight: Pointer,
        bias: Pointer,
        targets: Pointer,
        rows: int,
        channels: int,
    ) -> None:
        """Overwrite loss[0] with the mean binary cross-entropy of y, and dx; one launch.

        targets: in [0,1]. partial: workspace of `partial_shape(rows, channels)`, which
        `backward_parameters` reads. losses: workspace of `losses_shape(rows)`. ticket: one uint32,
        zero before the first launch and behind each; launches that share it follow one another.
        dx must not be x. rows is at least 1, for the mean of nothing is no number.
        """
        check_sizes("Readout", least=1, rows=rows, channels=channels)
        chunks, chunk_rows = _chunks(rows)
        outputs = loss, dx, partial, losses, ticket
        inputs, sizes = (x, weight, bias, targets), (rows, channels, chunk_rows)
        self._bce(stream, chunks, _BLOCK_WITH_LOSS, *outputs, *inputs, *sizes, 1 / rows)

    def backward_parameters(
        self,
        stream: Stream,
        dweight: Pointer,
        dbias: Pointer,
        partial: Pointer,
        rows: int,
        channels: int,
        *,
        accumulate: bool = False,
    ) -> None:
        """Overwrite dweight and dbias of the mean loss; one launch.

        partial: as `bce_and_gradient` left it, of these sizes. accumulate adds instead.
        """
        check_sizes("Readout", least=1, rows=rows, channels=channels)
        sums, count = (dweight, dbias, partial), _chunks(rows)[0]
        self._final(stream, ceil_div(channels + 1, 64), 64, *sums, count, channels, accumulate)


def _check(rows: int, channels: int) -> None:
    check_sizes("Readout", rows=rows)
    check_sizes("Readout", least=1, channels=channels)


def _chunks(rows: int) -> tuple[int, int]:
    """How many parts a sum over rows is made of, and the rows of each.

    A function of the rows alone, as the order of sums is with it.
    """
    each = max(_ROWS_A_BLOCK, ceil_div(rows, _MOST_CHUNKS))
    return max(1, ceil_div(rows, each)), each
