"""Gradients of the biases of several layers, added up in one launch (kernels_cu/bias.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Chunks, Pointer, Stream, ceil_div, check_sizes
from lowgraph.precision import Precision

__all__ = ["BiasSums"]

_BLOCK = 256
_COLUMNS_A_BLOCK = 64
_LEAST_CHUNK_ROWS = 128  # eight for each of a block's sixteen rows of threads
_MOST_CHUNKS = 32


class BiasSums:
    """Sums of the columns of matrices [rows,channels], the gradients of layers' outputs.

    Each layer has columns of its own in one float32 workspace [chunks,columns], which `pair` fills
    and `finish` adds up. precision: the matrices are bfloat16 with BF16, else float32.
    """

    def __init__(self, library: Library, precision: Precision = Precision.FP32) -> None:
        """Take the kernels from `library`."""
        types = {"act_t": precision.ctype}
        self._pair = library.kernel("bias.cu", "bias_pair_partial", types)
        self._final = library.kernel("bias.cu", "bias_sums_final", types)

    @staticmethod
    def chunks(rows: int) -> Chunks:
        """Return how the rows are cut up: each chunk has a row of the workspace.

        A function of `rows` alone, and so the bits do not depend on the device.
        """
        rows_each = max(_LEAST_CHUNK_ROWS, ceil_div(rows, _MOST_CHUNKS))
        return Chunks(max(1, ceil_div(rows, rows_each)), rows_each)

    def pair(
        self,
        stream: Stream,
        partial: Pointer,
        dy: Pointer,
        channels: int,
        dz: Pointer,
        more: int,
        rows: int,
        stride: int,
    ) -> None:
        """Overwrite `channels` and behind them `more` columns of partial; one launch.

        dy [rows,channels], dz [rows,more]; one of them may have no columns. partial: the first of
        these columns in a workspace whose rows are `stride` apart.
        """
        check_sizes("BiasSums", rows=rows, channels=channels, more=more, columns=channels + more)
        check_sizes("BiasSums", least=channels + more, stride=stride)
        if channels + more == 0:
            return
        count, chunk_rows = self.chunks(rows)
        blocks = sum(ceil_div(columns, _COLUMNS_A_BLOCK) for columns in (channels, more))
        sizes = rows, channels, more, chunk_rows, stride
        self._pair(stream, (blocks, count), _BLOCK, partial, dy, dz, *sizes)

    def finish(
        self,
        stream: Stream,
        gradients: Pointer,
        partial: Pointer,
        places: Pointer,
        rows: int,
        columns: int,
    ) -> None:
        """Overwrite gradients[places[c]] with the sum of column c of partial; one launch.

        partial [chunks of rows,columns]; places: int32 [columns], each once.
        """
        check_sizes("BiasSums", rows=rows, columns=columns)
        if columns:
            grid, count = ceil_div(columns, _COLUMNS_A_BLOCK), self.chunks(rows).chunks
            self._final(stream, grid, _BLOCK, gradients, partial, places, count, columns)
