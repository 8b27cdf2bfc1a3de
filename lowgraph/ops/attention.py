"""Causal self-attention over packed projections (kernels_cu/attention.cu)."""

from __future__ import annotations

from lowgraph.errors import ConfigError
from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes
from lowgraph.precision import Precision

__all__ = ["CausalAttention"]

_ROWS = 64  # queries or keys a block
_LARGEST_HEAD = 64  # above it the shared tiles outgrow the 48 KiB every GPU gives unasked


class CausalAttention:
    """out[i] = sum over j <= i of softmax_j(scale * q[i].k[j]) v[j], for each head.

    head_size: channels of one head, a multiple of 4, 64 at most (fast up to 32). scale: by default
    1/sqrt(head_size). precision: qkv, out and their gradients are bfloat16 with BF16; everything
    else, and they otherwise, float32. Raises ConfigError for another head_size.

    Shapes: qkv and dqkv [batch,length,3*C] hold q, k and v beside each other, C = heads*head_size,
    head after head; out and dout [batch,length,C]; lse and delta [batch,heads,length].
    """

    def __init__(
        self,
        library: Library,
        head_size: int,
        scale: float | None = None,
        precision: Precision = Precision.FP32,
    ) -> None:
        """Take the kernels from `library`, compiled for this head size."""
        if not 4 <= head_size <= _LARGEST_HEAD or head_size % 4:
            raise ConfigError(
                f"CausalAttention: head_size must be a multiple of 4 up to {_LARGEST_HEAD}, "
                f"got {head_size}"
            )
        defines = {"HEAD_SIZE": str(head_size), "act_t": precision.ctype}
        self.head_size = head_size
        self.scale = head_size**-0.5 if scale is None else scale
        self._forward = library.kernel("attention.cu", "attention_forward", defines)
        self._query = library.kernel("attention.cu", "attention_backward_query", defines)
        self._key = library.kernel("attention.cu", "attention_backward_key", defines)

    @staticmethod
    def lse_shape(batch: int, heads: int, length: int) -> tuple[int, int, int]:
        """Return the shape of lse, which forward writes and backward reads, and of delta."""
        return (batch, heads, length)

    def forward(
        self,
        stream: Stream,
        out: Pointer,
        lse: Pointer,
        qkv: Pointer,
        batch: int,
        heads: int,
        length: int,
    ) -> None:
        """Overwrite out and lse (the log of each row's softmax denominator); one launch."""
        grid = self._grid(batch, heads, length)
        if grid is not None:
            self._forward(stream, grid, _ROWS, out, lse, qkv, length, self.scale)

    def backward(
        self,
        stream: Stream,
        dqkv: Pointer,
        delta: Pointer,
        dout: Pointer,
        qkv: Pointer,
        out: Pointer,
        lse: Pointer,
        batch: int,
        heads: int,
        length: int,
    ) -> None:
        """Overwrite dqkv; two launches. delta: float32 workspace of `lse_shape`."""
        grid = self._grid(batch, heads, length)
        if grid is None:
            return
        self._query(stream, grid, _ROWS, dqkv, delta, dout, qkv, out, lse, length, self.scale)
        self._key(stream, grid, _ROWS, dqkv, delta, dout, qkv, lse, length, self.scale)

    def _grid(self, batch: int, heads: int, length: int) -> tuple[int, int, int] | None:
        check_sizes("CausalAttention", batch=batch, heads=heads, length=length)
        if batch * heads * length == 0:
            return None
        return (ceil_div(length, _ROWS), heads, batch)
