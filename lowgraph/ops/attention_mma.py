"""Causal self-attention in bfloat16 by tensor cores (kernels_cu/attention_mma.cu)."""

from __future__ import annotations

from lowgraph.errors import ConfigError
from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes

__all__ = ["FlashAttention"]

_FILE = "attention_mma.cu"
_ROWS = 64  # queries or keys a block
_THREADS = 128  # four warps of 16 rows
_LARGEST_HEAD = 128  # above it the sums outgrow a thread's registers
_MOST_FUSED = 256  # longest sequence whose backward is one kernel: its numbers fit in shared memory


class FlashAttention:
    """out[i] = sum over j <= i of softmax_j(scale * q[i].k[j]) v[j], for each head; bfloat16.

    head_size: channels of one head, a multiple of 16, 128 at most. scale: above 0, by default
    1/sqrt(head_size). Raises ConfigError for another head_size or scale.

    Shapes: qkv and dqkv [batch,length,3*C] hold q, k and v beside each other, C = heads*head_size,
    head after head; out and dout [batch,length,C]: bfloat16, each at a multiple of 16 bytes. lse
    and delta [batch,heads,length]: float32. Sums and softmax are float32; the softmax and its
    gradient are rounded to bfloat16 before they are multiplied (Dao 2023, FlashAttention-2).
    The results depend on nothing but the inputs, bit for bit.
    """

    def __init__(self, library: Library, head_size: int, scale: float | None = None) -> None:
        """Take the kernels from `library`, compiled for this head size."""
        if not self.takes(head_size):
            raise ConfigError(
                f"FlashAttention: head_size must be a multiple of 16 up to {_LARGEST_HEAD}, "
                f"got {head_size}"
            )
        self.head_size = head_size
        self.scale = head_size**-0.5 if scale is None else scale
        if not self.scale > 0:
            raise ConfigError(f"FlashAttention: scale must be above 0, got {scale}")
        defines = {"HEAD_SIZE": str(head_size)}
        self._forward, self._fused, self._query, self._key = (
            library.kernel(_FILE, f"attention_mma_{name}", defines)
            for name in ("forward", "backward", "backward_query", "backward_key")
        )

    @staticmethod
    def takes(head_size: int) -> bool:
        """Return whether there are kernels for heads of that size."""
        return 16 <= head_size <= _LARGEST_HEAD and head_size % 16 == 0

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
        blocks = self._blocks(batch, heads, length)
        if blocks:
            grid = (heads, batch, blocks)
            self._forward(stream, grid, _THREADS, out, lse, qkv, length, self.scale)

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
        """Overwrite dqkv and delta, a workspace; one launch up to length 256, two above."""
        blocks = self._blocks(batch, heads, length)
        if not blocks:
            return
        tensors = (dqkv, delta, dout, qkv, out, lse, length, self.scale)
        if length <= _MOST_FUSED:
            self._fused(stream, (heads, batch, 2 * blocks), _THREADS, *tensors)
            return
        grid = (heads, batch, blocks)
        self._query(stream, grid, _THREADS, *tensors)
        self._key(stream, grid, _THREADS, dqkv, delta, dout, qkv, lse, length, self.scale)

    @staticmethod
    def _blocks(batch: int, heads: int, length: int) -> int:
        """Return the blocks that a head's rows take; 0 when there is nothing to attend."""
        check_sizes("FlashAttention", batch=batch, heads=heads, length=length)
        return ceil_div(length, _ROWS) if batch * heads else 0
