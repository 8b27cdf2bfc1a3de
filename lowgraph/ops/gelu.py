"""GELU, tanh approximation, fused with the bias before it (kernels_cu/gelu.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes, quads
from lowgraph.precision import Precision

__all__ = ["BiasGelu"]


class BiasGelu:
    """activation = gelu(pre + bias); Hendrycks and Gimpel 2016, tanh form.

    precision: all but the bias is bfloat16 with BF16, else float32. bias: of the bias; BF16 only
    where the others are, too.
    """

    def __init__(
        self,
        library: Library,
        precision: Precision = Precision.FP32,
        bias: Precision = Precision.FP32,
    ) -> None:
        """Take the kernels from `library`."""
        types = {"act_t": precision.ctype, "bias_t": bias.ctype}
        self._forward = library.kernel("gelu.cu", "bias_gelu_forward", types)
        self._backward = library.kernel("gelu.cu", "gelu_backward", types)

    def forward(
        self,
        stream: Stream,
        activation: Pointer,
        pre: Pointer,
        bias: Pointer,
        rows: int,
        channels: int,
    ) -> None:
        """Add bias [channels] to pre [rows,channels] in place, overwrite activation with its GELU.

        One launch. Backward needs pre as it is left here.
        """
        check_sizes("BiasGelu", rows=rows, channels=channels)
        if rows * channels == 0:
            return
        grid = ceil_div(rows * quads(channels), 128)
        self._forward(stream, grid, 128, activation, pre, bias, rows, channels)

    def backward(
        self,
        stream: Stream,
        dpre: Pointer,
        dactivation: Pointer,
        pre: Pointer,
        rows: int,
        channels: int,
    ) -> None:
        """Overwrite dpre [rows,channels]; one launch. dpre may be dactivation.

        The bias's gradient is the column sum of dpre (`Bias.backward`).
        """
        check_sizes("BiasGelu", rows=rows, channels=channels)
        count = rows * channels
        if count == 0:
            return
        self._backward(stream, ceil_div(count, 512), 128, dpre, dactivation, pre, count)
