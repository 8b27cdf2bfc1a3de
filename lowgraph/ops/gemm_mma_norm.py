"""Small linear layers in bfloat16 with the layer norm behind them in the same launch.

The kernels are in kernels_cu/gemm_mma_norm.cu.
"""

from __future__ import annotations

from lowgraph.errors import ConfigError
from lowgraph.kernels import Library
from lowgraph.ops.layernorm import EPSILON, LayerNorm
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes

__all__ = ["NormedLinear"]

_FILE = "gemm_mma_norm.cu"
_BLOCK = 256
_STAGES, _DEPTH = 4, 64
_PAD = 8
_CHUNK = 16  # rows whose sums for the norm's parameters are one


class NormedLinear:
    """A layer and the norm of its COLUMNS columns in one launch.

    Forward, out = residual + x weight^T + bias and the norm of out; backward, the gradient dy = dz
    weight of a norm's output, and that of its input. rows: at most 4096. depth: what a product sums
    over, a multiple of 8: forward the layer's inputs, backward its outputs. tile: rows that a block
    owns, one of TILES. Raises ConfigError for sizes that it has no kernel for.

    Shapes: x, dz [rows,depth]; weight [COLUMNS,depth], backward [depth,COLUMNS]; out, residual, y,
    dx, narrow, normed [rows,COLUMNS]; bias, scale, shift [COLUMNS]; mean, rstd [rows]. x, dz,
    weight, y and narrow are bfloat16, all else float32. All begin at multiples of 16 bytes. Sums
    are float32; out and dy are not rounded between product and norm. The bits depend on inputs,
    sizes and tile alone.
    """

    COLUMNS = 128
    TILES = 32, 16

    def __init__(
        self,
        library: Library,
        rows: int,
        depth: int,
        tile: int = TILES[0],
        epsilon: float = EPSILON,
    ) -> None:
        """Take the kernels from `library`; epsilon is added to the (biased) variance."""
        check_sizes("NormedLinear", rows=rows)
        check_sizes("NormedLinear", least=8, depth=depth)
        if depth % 8:
            raise ConfigError(
                "NormedLinear: depth must be a multiple of 8 (16 bytes are read at once), got "
                f"{depth}: pad it"
            )
        if LayerNorm.chunks(rows).rows != _CHUNK:
            raise ConfigError(
                f"NormedLinear: {rows} rows are more than the 4096 that a norm sums {_CHUNK} at a "
                "time: launch the product, and LayerNorm behind it"
            )
        if tile not in self.TILES:
            raise ConfigError(f"NormedLinear: tile must be one of {self.TILES}, got {tile}")
        self._sizes = rows, depth
        self._grid = ceil_div(rows, tile)
        self._epsilon = epsilon
        self._room = _stage_bytes(tile)
        self._forward, self._backward = (
            library.kernel(_FILE, f"linear_mma_norm_{name}", {"TILE_M": tile})
            for name in ("forward", "backward")
        )
        for kernel in (self._forward, self._backward):
            kernel.allow_shared(self._room)

    def forward(
        self,
        stream: Stream,
        out: Pointer,
        y: Pointer,
        mean: Pointer,
        rstd: Pointer,
        x: Pointer,
        weight: Pointer,
        bias: Pointer,
        residual: Pointer,
        scale: Pointer,
        shift: Pointer,
    ) -> None:
        """Overwrite out = residual + (x weight^T + bias), y, mean and rstd; one launch.

        y = (out - mean) * rstd * scale + shift. out may be residual.
        """
        if self._sizes[0]:
            written, read = (out, y, mean, rstd), (x, weight, bias, residual, scale, shift)
            sizes = *self._sizes, self._epsilon
            self._forward(stream, self._grid, _BLOCK, *written, *read, *sizes, shared=self._room)

    def backward(
        self,
        stream: Stream,
        dx: Pointer,
        narrow: Pointer,
        partial: Pointer,
        dz: Pointer,
        weight: Pointer,
        normed: Pointer,
        scale: Pointer,
        mean: Pointer,
        rstd: Pointer,
        *,
        stride: int = 2 * COLUMNS,
        accumulate: bool = False,
    ) -> None:
        """Overwrite dx, and what LayerNorm.backward of dy leaves beside it; one launch.

        dx: the gradient of the norm's input `normed`, added to what is there if `accumulate`.
        narrow: dx in bfloat16. partial [LayerNorm.chunks(rows).chunks, stride]: 2 * COLUMNS columns
        of it, those for scale and then those for shift, for `LayerNorm.parameters`.
        """
        check_sizes("NormedLinear", least=2 * self.COLUMNS, stride=stride)
        written, read = (dx, narrow, partial), (dz, weight, normed, scale, mean, rstd)
        sizes, grid = (*self._sizes, stride, accumulate), max(1, self._grid)
        self._backward(stream, grid, _BLOCK, *written, *read, *sizes, shared=self._room)


def _stage_bytes(tile: int) -> int:
    """Bytes of a Stages (kernels_cu/common/gemm_mma.cuh): tiles of both operands, as they are or
    turned, each row padded.
    """
    rooms = (max(rows * (_DEPTH + _PAD), _DEPTH * (rows + _PAD)) for rows in (tile, 128))
    return 2 * _STAGES * sum(rooms)
