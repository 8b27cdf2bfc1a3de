"""Small linear layers in bfloat16 with the layer norm behind them in the same launch.

The kernels are in kernels_cu/gemm_mma_norm.cu.
"""

from __future__ import annotations

from lowgraph.errors import ConfigError
from lowgraph.kernels import Library
from lowgraph.ops.layernorm import EPSILON
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes

__all__ = ["NormedLinear"]

_FILE = "gemm_mma_norm.cu"
_BLOCK = 256
_STAGES, _DEPTH = 4, 64
_PAD = 8


class NormedLinear:
    """out = residual + x weight^T + bias of COLUMNS columns, and the norm of out, in one launch.

    rows: of x and out. depth: what a product sums over, a multiple of 8: the layer's inputs. tile:
    rows that a block owns, one of TILES. Raises ConfigError for sizes that it has no kernel for.

    Shapes: x [rows,depth]; weight [COLUMNS,depth]; out, residual, y [rows,COLUMNS]; bias, scale,
    shift [COLUMNS]; mean, rstd [rows]. x, weight and y are bfloat16, all else float32. All begin at
    multiples of 16 bytes. Sums are float32; out is not rounded between product and norm. The bits
    depend on inputs, sizes and tile alone.
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
        if tile not in self.TILES:
            raise ConfigError(f"NormedLinear: tile must be one of {self.TILES}, got {tile}")
        self._sizes = rows, depth
        self._grid = ceil_div(rows, tile)
        self._epsilon = epsilon
        self._room = _stage_bytes(tile)
        self._forward = library.kernel(_FILE, "linear_mma_norm_forward", {"TILE_M": tile})
        self._forward.allow_shared(self._room)

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


def _stage_bytes(tile: int) -> int:
    """Bytes of a Stages (kernels_cu/common/gemm_mma.cuh): tiles of both operands, as they are or
    turned, each row padded.
    """
    rooms = (max(rows * (_DEPTH + _PAD), _DEPTH * (rows + _PAD)) for rows in (tile, 128))
    return 2 * _STAGES * sum(rooms)
