"""Layer normalisation over the last axis (kernels_cu/layernorm.cu, layernorm_backward.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Chunks, Pointer, Stream, ceil_div, check_sizes
from lowgraph.precision import Precision

__all__ = ["LayerNorm"]

_BLOCK = 256
_ROWS_A_BLOCK = 16  # sixteen threads a row
_MOST_CHUNKS = 256


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
        self._residual = library.kernel("layernorm.cu", "layernorm_residual_forward", types)
        self._embedding = library.kernel("layernorm.cu", "layernorm_embedding_forward", types)
        backward = "layernorm_backward.cu"
        self._backward = library.kernel(backward, "layernorm_backward", types)
        self._parameters = library.kernel(backward, "layernorm_parameters", types)

    @staticmethod
    def chunks(rows: int) -> Chunks:
        """Return how backward cuts rows up: each chunk leaves its sums for the parameters.

        A function of `rows` alone, and so the bits do not depend on the device.
        """
        rows_each = _ROWS_A_BLOCK * max(1, ceil_div(rows, _ROWS_A_BLOCK * _MOST_CHUNKS))
        return Chunks(max(1, ceil_div(rows, rows_each)), rows_each)

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
        _check(rows, channels)
        if rows:
            sizes = rows, channels, self.epsilon
            self._forward(stream, _grid(rows), _BLOCK, y, mean, rstd, x, weight, bias, *sizes)

    def residual_forward(
        self,
        stream: Stream,
        x: Pointer,
        y: Pointer,
        mean: Pointer,
        rstd: Pointer,
        residual: Pointer,
        branch: Pointer,
        branch_bias: Pointer,
        weight: Pointer,
        bias: Pointer,
        rows: int,
        channels: int,
    ) -> None:
        """Overwrite x with residual + (branch + branch_bias), and y, mean and rstd as of x.

        x, residual, branch [rows,channels], branch_bias [channels], float32; x may be branch. One
        launch.
        """
        _check(rows, channels)
        if rows:
            read = residual, branch, branch_bias, weight, bias
            sizes = rows, channels, self.epsilon
            self._residual(stream, _grid(rows), _BLOCK, x, y, mean, rstd, *read, *sizes)

    def embedding_forward(
        self,
        stream: Stream,
        x: Pointer,
        y: Pointer,
        mean: Pointer,
        rstd: Pointer,
        tokens: Pointer,
        token_table: Pointer,
        position_table: Pointer,
        weight: Pointer,
        bias: Pointer,
        rows: int,
        length: int,
        channels: int,
    ) -> None:
        """Overwrite x with the embedding of tokens, and y, mean and rstd as of x; one launch.

        x[r] = token_table[tokens[r]] + position_table[r % length], as `Embedding` has it; x
        [rows,channels], float32.
        """
        _check(rows, channels)
        if rows:
            read = tokens, token_table, position_table, weight, bias
            sizes = rows, length, channels, self.epsilon
            self._embedding(stream, _grid(rows), _BLOCK, x, y, mean, rstd, *read, *sizes)

    def backward(
        self,
        stream: Stream,
        dx: Pointer,
        partial: Pointer,
        dy: Pointer,
        x: Pointer,
        weight: Pointer,
        mean: Pointer,
        rstd: Pointer,
        rows: int,
        channels: int,
        *,
        stride: int | None = None,
        add_dx: bool = False,
        narrow: Pointer = 0,
    ) -> None:
        """Overwrite dx [rows,channels], and the sums that `parameters` adds; one launch.

        partial [chunks(rows), stride], float32: 2 * channels columns of it, the weight's and then
        the bias's, are overwritten; stride, 2 * channels if None, is more where several norms have
        their columns side by side. add_dx adds to dx instead (the gradient of a residual branch is
        already there). narrow [rows,channels], null for none, is overwritten with dx in the type of
        dy. dx may be dy, where that is float32.
        """
        _check(rows, channels)
        count, chunk_rows = self.chunks(rows)
        across = 2 * channels if stride is None else stride
        sizes = rows, channels, chunk_rows, across, add_dx
        read = dy, x, weight, mean, rstd
        self._backward(stream, count, _BLOCK, dx, narrow, partial, *read, *sizes)

    def parameters(
        self,
        stream: Stream,
        gradients: Pointer,
        partial: Pointer,
        places: Pointer,
        rows: int,
        columns: int,
        *,
        accumulate: bool = False,
    ) -> None:
        """Overwrite gradients[places[c]] with the sum of column c of partial; one launch.

        partial [chunks(rows), columns], as `backward` of all its norms left it; places [columns],
        int32. accumulate adds to gradients instead.
        """
        check_sizes("LayerNorm", rows=rows, columns=columns)
        if columns:
            count = self.chunks(rows).chunks
            read, sizes = (partial, places), (count, columns, accumulate)
            self._parameters(stream, ceil_div(columns, 32), 256, gradients, *read, *sizes)


def _check(rows: int, channels: int) -> None:
    check_sizes("LayerNorm", rows=rows)
    check_sizes("LayerNorm", least=1, channels=channels)


def _grid(rows: int) -> int:
    return ceil_div(rows, _ROWS_A_BLOCK)
