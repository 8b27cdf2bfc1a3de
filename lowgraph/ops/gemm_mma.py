"""Small linear layers in bfloat16 by tensor cores, with what follows them fused in.

The kernels are in kernels_cu/gemm_mma.cu.
"""

from __future__ import annotations

from lowgraph.errors import ConfigError
from lowgraph.kernels import Kernel, Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes

__all__ = ["FusedLinear"]

_FILE = "gemm_mma.cu"
_THREADS = 128
_ENOUGH_BLOCKS = 128  # about one for each multiprocessor of a big GPU
_DEPTH = 32  # rows that a block sums at a time
_LEAST_CHUNK = 128  # rows of a split: four times that

# Rows and columns of a result for each block, and how many blocks such tiles must give to be taken.
# Larger tiles read less, smaller ones keep more multiprocessors busy.
_TILES = (
    (128, 64, 2 * _ENOUGH_BLOCKS),
    (64, 64, _ENOUGH_BLOCKS),
    (32, 64, _ENOUGH_BLOCKS),
    (32, 32, 0),
)


class FusedLinear:
    """y = x weight^T of one shape, and its gradients.

    rows: of x, y and their gradients; inputs, outputs: their columns, multiples of 8. tile: rows
    and columns of a result that a block computes, one of `TILES`; by default one for each result
    that suits its size. Raises ConfigError for other sizes and tiles.

    Shapes: x, dx [rows,inputs], weight, dweight [outputs,inputs], y, dy [rows,outputs], bias, dbias
    [outputs]. bfloat16 but for dweight, dbias, the residual stream and y_wide, which are float32; a
    bias has the type of the result that it is added to. All begin at multiples of 16 bytes. Sums
    are float32 and a result is rounded once. The tiles, and with them the order of sums, depend on
    the sizes alone: the same bits on every run.
    """

    TILES = tuple((height, width) for height, width, _ in _TILES)

    def __init__(
        self,
        library: Library,
        rows: int,
        inputs: int,
        outputs: int,
        tile: tuple[int, int] | None = None,
    ) -> None:
        """Take the kernels from `library`, compiled for the tiles that suit the sizes."""
        check_sizes("FusedLinear", rows=rows)
        check_sizes("FusedLinear", least=8, inputs=inputs, outputs=outputs)
        if inputs % 8 or outputs % 8:
            raise ConfigError(
                "FusedLinear: inputs and outputs must be multiples of 8 (16 bytes are read at "
                f"once), got {inputs} and {outputs}: pad them"
            )
        if tile is not None and tile not in self.TILES:
            raise ConfigError(f"FusedLinear: tile must be one of {self.TILES}, got {tile}")
        self._sizes = (rows, outputs, inputs)
        self._prepare_forward(library, tile or _tile(rows, outputs))
        self._prepare_backward(library, tile or _tile(rows, inputs))

    def _prepare_forward(self, library: Library, tile: tuple[int, int]) -> None:
        rows, outputs, _ = self._sizes
        self._grid = (ceil_div(outputs, tile[1]), ceil_div(rows, tile[0]))
        self._plain, self._wide, self._bias, self._gelu, self._residual = (
            _kernel(library, f"linear_mma_{name}", tile)
            for name in (
                "forward",
                "forward_wide",
                "forward_bias",
                "forward_gelu",
                "forward_residual",
            )
        )

    def _prepare_backward(self, library: Library, tile: tuple[int, int]) -> None:
        rows, outputs, inputs = self._sizes
        self._backward, self._backward_gelu, self._reduce = (
            _kernel(library, f"linear_mma_{name}", tile)
            for name in ("backward", "backward_gelu", "reduce")
        )
        across = ceil_div(inputs, tile[1])
        self._input_blocks = across * ceil_div(rows, tile[0])
        tiles = across * ceil_div(outputs, tile[0])
        chunk = max(_LEAST_CHUNK, ceil_div(rows, ceil_div(2 * _ENOUGH_BLOCKS, tiles)))
        self._chunk = ceil_div(chunk, _DEPTH) * _DEPTH
        self._splits = max(1, ceil_div(rows, self._chunk))
        self._weight_blocks = tiles * self._splits

    def workspace_shape(self) -> tuple[int, int]:
        """Return the shape of the float32 workspace of backward: one sum for each part of rows."""
        _, outputs, inputs = self._sizes
        return (self._splits, outputs * inputs + outputs)

    def forward(self, stream: Stream, y: Pointer, x: Pointer, weight: Pointer) -> None:
        """Overwrite y; one launch."""
        self._launch(self._plain, stream, y, x, weight)

    def forward_wide(self, stream: Stream, y_wide: Pointer, x: Pointer, weight: Pointer) -> None:
        """Overwrite y_wide, y in float32; one launch."""
        self._launch(self._wide, stream, y_wide, x, weight)

    def forward_bias(
        self, stream: Stream, y: Pointer, x: Pointer, weight: Pointer, bias: Pointer
    ) -> None:
        """Overwrite y, with bias added; one launch."""
        self._launch(self._bias, stream, y, x, weight, bias)

    def forward_gelu(
        self,
        stream: Stream,
        active: Pointer,
        hidden: Pointer,
        x: Pointer,
        weight: Pointer,
        bias: Pointer,
    ) -> None:
        """Overwrite hidden = y + bias and active = gelu(hidden) [rows,outputs]; one launch.

        gelu: with the tanh (Hendrycks and Gimpel 2016), of hidden before it is rounded.
        """
        self._launch(self._gelu, stream, active, hidden, x, weight, bias)

    def forward_residual(
        self,
        stream: Stream,
        out: Pointer,
        x: Pointer,
        weight: Pointer,
        bias: Pointer,
        residual: Pointer,
    ) -> None:
        """Overwrite out = residual + y + bias, float32; out may be residual; one launch."""
        self._launch(self._residual, stream, out, x, weight, bias, residual)

    def backward(
        self,
        stream: Stream,
        dx: Pointer | None,
        dweight: Pointer | None,
        dbias: Pointer | None,
        workspace: Pointer,
        dy: Pointer,
        x: Pointer,
        weight: Pointer,
        *,
        accumulate: bool = False,
    ) -> None:
        """Overwrite dx, and overwrite dweight and dbias or, if `accumulate`, add to them.

        dx, dweight, dbias: None if nobody wants them, and dbias None with dweight: the bits of
        each are the same alone. workspace: of `workspace_shape`. Two launches, or one when the rows
        are one part and nothing is added to, or for dx alone.
        """
        tensors = (dy, x, weight)
        self._launch_backward(
            self._backward, stream, dx, (dweight, dbias, workspace), tensors, accumulate
        )

    def backward_gelu(
        self,
        stream: Stream,
        dhidden: Pointer | None,
        dweight: Pointer | None,
        dbias: Pointer | None,
        workspace: Pointer,
        dy: Pointer,
        active: Pointer,
        weight: Pointer,
        hidden: Pointer,
        *,
        accumulate: bool = False,
    ) -> None:
        """As `backward` of a layer whose input is active = gelu(hidden) [rows,inputs].

        Overwrites dhidden = dx gelu'(hidden) in place of dx.
        """
        tensors = (dy, active, weight, hidden)
        self._launch_backward(
            self._backward_gelu, stream, dhidden, (dweight, dbias, workspace), tensors, accumulate
        )

    def _launch(self, kernel: Kernel, stream: Stream, *tensors: Pointer) -> None:
        if self._sizes[0]:
            kernel(stream, self._grid, _THREADS, *tensors, *self._sizes)

    def _launch_backward(
        self,
        kernel: Kernel,
        stream: Stream,
        dx: Pointer | None,
        sums: tuple[Pointer | None, Pointer | None, Pointer],
        tensors: tuple[Pointer, ...],
        accumulate: bool,
    ) -> None:
        _, outputs, inputs = self._sizes
        dweight, dbias, workspace = sums
        own_bias = 0 if dbias is None else dbias
        own_weight = 0 if dweight is None else dweight
        in_parts = dweight is not None and (self._splits > 1 or accumulate)
        to, to_bias = own_weight, own_bias
        if in_parts:
            to = workspace
            to_bias = 0 if dbias is None else _after(workspace, outputs * inputs)
        input_blocks = 0 if dx is None else self._input_blocks
        sizes = (*self._sizes, self._chunk, input_blocks)
        grid = input_blocks + (0 if dweight is None else self._weight_blocks)
        kernel(stream, grid, _THREADS, 0 if dx is None else dx, to, to_bias, *tensors, *sizes)
        if in_parts:
            count = outputs * inputs + outputs
            more = (outputs, inputs, self._splits, accumulate)
            grid = ceil_div(count, 4 * _THREADS)
            self._reduce(stream, grid, _THREADS, own_weight, own_bias, workspace, *more)


def _tile(rows: int, columns: int) -> tuple[int, int]:
    """Return the rows and columns of a result [rows,columns] that a block computes."""
    return next(
        (height, width)
        for height, width, enough in _TILES
        if ceil_div(rows, height) * ceil_div(columns, width) >= enough
    )


def _kernel(library: Library, name: str, tile: tuple[int, int]) -> Kernel:
    return library.kernel(_FILE, name, {"TILE_M": tile[0], "TILE_N": tile[1]})


def _after(floats: Pointer, count: int) -> int:
    """Return the address `count` float32 numbers on."""
    return (floats if isinstance(floats, int) else floats.address) + 4 * count
