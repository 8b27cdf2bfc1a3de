"""Layer normalisation over the last axis (kernels_cu/layernorm.cu, layernorm_backward.cu)."""

from __future__ import annotations

from functools import cached_property

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Chunks, Pointer, Stream, ceil_div, check_sizes
from lowgraph.precision import Precision

__all__ = ["EPSILON", "LayerNorm"]

EPSILON = 1e-5
"""Added to a variance unless something else is said."""
_BLOCK = 256
_ROWS_A_BLOCK = 16  # sixteen threads a row
_MOST_CHUNKS = 256
_WIDE_CHANNELS = 257  # from here on a warp has a row


class _Kernels:
    """The kernels for rows that `lanes` threads have."""

    def __init__(self, library: Library, precision: Precision, lanes: int) -> None:
        defines: dict[str, str | int] = {"act_t": precision.ctype, "ROW_LANES": lanes}
        self.rows_a_block = _BLOCK // lanes
        self.forward = library.kernel("layernorm.cu", "layernorm_forward", defines)
        self.residual = library.kernel("layernorm.cu", "layernorm_residual_forward", defines)
        self.embedding = library.kernel("layernorm.cu", "layernorm_embedding_forward", defines)
        backward = "layernorm_backward.cu"
        self.backward = library.kernel(backward, "layernorm_backward", defines)
        self.parameters = library.kernel(backward, "layernorm_parameters", defines)

    def grid(self, rows: int) -> int:
        return ceil_div(rows, self.rows_a_block)


class LayerNorm:
    """y = (x - mean) * rstd * weight + bias, over rows of `channels` values.

    epsilon is added to the (biased) variance. Ba, Kiros, Hinton 2016. precision: y and dy are
    bfloat16 with BF16; everything else, and they otherwise, float32. The kernels for rows of more
    than 256 channels are compiled and loaded at the first call that has such, which a capture
    refuses: let an eager call go before it.
    """

    def __init__(
        self, library: Library, epsilon: float = EPSILON, precision: Precision = Precision.FP32
    ) -> None:
        """Take the kernels from `library`."""
        self.epsilon = epsilon
        self._library, self._precision = library, precision
        self._narrow = _Kernels(library, precision, 16)

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
            kernels, sizes = self._kernels(channels), (rows, channels, self.epsilon)
            grid = kernels.grid(rows)
            kernels.forward(stream, grid, _BLOCK, y, mean, rstd, x, weight, bias, *sizes)

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
            kernels, sizes = self._kernels(channels), (rows, channels, self.epsilon)
            grid = kernels.grid(rows)
            kernels.residual(stream, grid, _BLOCK, x, y, mean, rstd, *read, *sizes)

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
            kernels, sizes = self._kernels(channels), (rows, length, channels, self.epsilon)
            grid = kernels.grid(rows)
            kernels.embedding(stream, grid, _BLOCK, x, y, mean, rstd, *read, *sizes)

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
        backward = self._kernels(channels).backward
        backward(stream, count, _BLOCK, dx, narrow, partial, *read, *sizes)

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
            grid = ceil_div(columns, 32)
            self._narrow.parameters(stream, grid, 512, gradients, *read, *sizes)

    @cached_property
    def _wide(self) -> _Kernels:
        return _Kernels(self._library, self._precision, 32)

    def _kernels(self, channels: int) -> _Kernels:
        return self._narrow if channels < _WIDE_CHANNELS else self._wide


def _check(rows: int, channels: int) -> None:
    check_sizes("LayerNorm", rows=rows)
    check_sizes("LayerNorm", least=1, channels=channels)
