"""ReLU fused with the bias before it (kernels_cu/relu.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes, quads
from lowgraph.precision import Precision

__all__ = ["BiasRelu"]


class BiasRelu:
    """y = max(x + bias, 0), in place.

    precision: y and dy are bfloat16 with BF16, else float32, as dbias is. bias: of the bias alone;
    BF16 only where y is, too.
    """

    def __init__(
        self,
        library: Library,
        precision: Precision = Precision.FP32,
        bias: Precision = Precision.FP32,
    ) -> None:
        """Take the kernels from `library`."""
        types = {"act_t": precision.ctype, "bias_t": bias.ctype}
        self._forward = library.kernel("relu.cu", "bias_relu_forward", types)
        self._backward = library.kernel("relu.cu", "bias_relu_backward", types)

    def forward(self, stream: Stream, y: Pointer, bias: Pointer, rows: int, channels: int) -> None:
        """Turn x [rows,channels], which y holds, into y; one launch. Backward needs y."""
        check_sizes("BiasRelu", rows=rows, channels=channels)
        if rows * channels == 0:
            return
        self._forward(stream, ceil_div(rows * quads(channels), 128), 128, y, bias, rows, channels)

    def backward(
        self, stream: Stream, dy: Pointer, dbias: Pointer, y: Pointer, rows: int, channels: int
    ) -> None:
        """Turn dy into the gradient of x in place, overwrite dbias [channels]; one launch.

        No rows give a dbias of zeros.
        """
        check_sizes("BiasRelu", rows=rows, channels=channels)
        if channels == 0:
            return
        self._backward(stream, ceil_div(channels, 32), 128, dy, dbias, y, rows, channels)
