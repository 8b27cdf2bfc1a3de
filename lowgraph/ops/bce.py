"""Binary cross-entropy of logits (kernels_cu/bce.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes

__all__ = ["BinaryCrossEntropy"]

_THREADS = 512
_ELEMENTS_A_BLOCK = 4 * _THREADS
_MOST_BLOCKS = 64


class BinaryCrossEntropy:
    """Average of log(1 + exp(x)) - x * target over `count` float32 logits; targets in [0,1]."""

    def __init__(self, library: Library) -> None:
        """Take the kernels from `library`."""
        self._partial = library.kernel("bce.cu", "bce_partial")
        self._final = library.kernel("bce.cu", "bce_final")

    @staticmethod
    def partial_shape(count: int) -> tuple[int]:
        """Return the shape of forward's float32 workspace; a function of count alone."""
        return (min(_MOST_BLOCKS, ceil_div(count, _ELEMENTS_A_BLOCK)),)

    def forward(
        self,
        stream: Stream,
        loss: Pointer,
        partial: Pointer,
        logits: Pointer,
        targets: Pointer,
        count: int,
        *,
        dlogits: Pointer = 0,
        scale: float = 0.0,
    ) -> None:
        """Overwrite loss[0] with the mean; two launches, or one for up to 2048 elements.

        partial: of `partial_shape(count)`; not used by one launch alone.
        dlogits, null for none, is overwritten with (sigmoid(logit) - target) * scale; scale is
        1 / count for the gradient of the mean. It may be logits.
        count is at least 1, for the mean of nothing is no number.
        """
        check_sizes("BinaryCrossEntropy", least=1, count=count)
        (blocks,) = self.partial_shape(count)
        tensors = loss, partial, dlogits, logits, targets
        self._partial(stream, blocks, _THREADS, *tensors, count, scale)
        if blocks > 1:
            self._final(stream, 1, _MOST_BLOCKS, loss, partial, blocks, count)
