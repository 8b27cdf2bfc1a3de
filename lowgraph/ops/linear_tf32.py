"""Linear layers of a few hundred rows and columns in TF32, one launch a layer each way.

The kernels are in kernels_cu/linear_tf32.cu.
"""

from __future__ import annotations

from lowgraph.errors import ConfigError
from lowgraph.kernels import Kernel, Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes

__all__ = ["LinearTf32"]

_FILE = "linear_tf32.cu"
_THREADS = 256
# Rows and columns of a result that a block computes.
_TILE_Y = (16, 16)
_TILE_DX = (16, 32)
_TILE_DWEIGHT = (32, 32)


class LinearTf32:
    """y = x weight^T + bias of one shape, or its ReLU, and the gradients.

    rows: of x, y and their gradients; inputs, outputs: their columns; inputs is a multiple of 4. No
    matrix has more than 2^31 - 1 elements. Raises ConfigError for other sizes.

    Shapes: x, dx [rows,inputs], weight, dweight [outputs,inputs], y, dy [rows,outputs], bias, dbias
    [outputs]; float32, each at a multiple of 16 bytes. Products read numbers rounded to TF32, to
    nearest, and sum them in float32, in an order that the sizes alone decide: the same bits on
    every run. Made for products so small that a GPU waits for memory and not for arithmetic.
    """

    def __init__(self, library: Library, rows: int, inputs: int, outputs: int) -> None:
        """Take the kernels from `library`."""
        check_sizes("LinearTf32", rows=rows, outputs=outputs)
        check_sizes("LinearTf32", least=4, inputs=inputs)
        # Where a number lies in its matrix is an int in the kernels.
        numbers = {"rows * inputs": rows * inputs, "rows * outputs": rows * outputs}
        check_sizes("LinearTf32", **numbers, **{"outputs * inputs": outputs * inputs})
        if inputs % 4:
            raise ConfigError(
                "LinearTf32: inputs must be a multiple of 4 (16 bytes are read at once), got "
                f"{inputs}: pad them"
            )
        self._sizes = (rows, outputs, inputs)
        self._grid = tuple(reversed(_tiles(_TILE_Y, rows, outputs)))
        down, across = _tiles(_TILE_DX, rows, inputs)
        self._input_blocks = down * across
        down, across = _tiles(_TILE_DWEIGHT, outputs, inputs)
        self._weight_blocks = down * across
        self._forward, self._forward_relu, self._backward, self._backward_relu = (
            library.kernel(_FILE, f"linear_tf32_{name}")
            for name in ("forward", "forward_relu", "backward", "backward_relu")
        )

    def forward(
        self, stream: Stream, y: Pointer, x: Pointer, weight: Pointer, bias: Pointer
    ) -> None:
        """Overwrite y; one launch."""
        self._launch_forward(self._forward, stream, y, x, weight, bias)

    def forward_relu(
        self, stream: Stream, y: Pointer, x: Pointer, weight: Pointer, bias: Pointer
    ) -> None:
        """Overwrite y with max(x weight^T + bias, 0); one launch. Backward needs y."""
        self._launch_forward(self._forward_relu, stream, y, x, weight, bias)

    def backward(
        self,
        stream: Stream,
        dx: Pointer | None,
        dweight: Pointer,
        dbias: Pointer | None,
        dy: Pointer,
        x: Pointer,
        weight: Pointer,
    ) -> None:
        """Overwrite dx, dweight and dbias; one launch. dx, dbias: None if nobody wants them."""
        self._launch_backward(self._backward, stream, dx, dweight, dbias, dy, x, weight)

    def backward_relu(
        self,
        stream: Stream,
        dx: Pointer | None,
        dweight: Pointer,
        dbias: Pointer | None,
        dy: Pointer,
        x: Pointer,
        weight: Pointer,
        y: Pointer,
    ) -> None:
        """As `backward` of a layer whose results y [rows,outputs] `forward_relu` made."""
        self._launch_backward(self._backward_relu, stream, dx, dweight, dbias, dy, x, weight, y)

    def _launch_forward(self, kernel: Kernel, stream: Stream, *tensors: Pointer) -> None:
        rows, outputs, _ = self._sizes
        if rows and outputs:
            kernel(stream, self._grid, _THREADS, *tensors, *self._sizes)

    def _launch_backward(
        self,
        kernel: Kernel,
        stream: Stream,
        dx: Pointer | None,
        dweight: Pointer,
        dbias: Pointer | None,
        *read: Pointer,
    ) -> None:
        input_blocks = 0 if dx is None else self._input_blocks
        grid = input_blocks + self._weight_blocks
        if grid:
            to = (0 if dx is None else dx, dweight, 0 if dbias is None else dbias)
            kernel(stream, grid, _THREADS, *to, *read, *self._sizes, input_blocks)


def _tiles(tile: tuple[int, int], rows: int, columns: int) -> tuple[int, int]:
    """Return the tiles of a result [rows,columns]: down and across."""
    return ceil_div(rows, tile[0]), ceil_div(columns, tile[1])
