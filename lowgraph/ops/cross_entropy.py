"""Softmax cross-entropy and its mean (kernels_cu/cross_entropy.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes
from lowgraph.precision import Precision

__all__ = ["CrossEntropy"]

_BLOCK = 128
_ROWS_A_BLOCK = 8  # sixteen threads a row


class CrossEntropy:
    """row_loss[r] = logsumexp(logits[r]) - logits[r,targets[r]], in nats; int32 targets.

    precision: logits and their gradient are bfloat16 with BF16, else float32, as all others are. A
    target outside [0, classes) reads outside its row: targets are the caller's to check.
    """

    def __init__(self, library: Library, precision: Precision = Precision.FP32) -> None:
        """Take the kernels from `library`."""
        types = {"act_t": precision.ctype}
        self._forward = library.kernel("cross_entropy.cu", "cross_entropy_forward", types)
        self._both = library.kernel("cross_entropy.cu", "cross_entropy_forward_backward", types)
        self._mean = library.kernel("cross_entropy.cu", "mean_loss", types)

    def forward(
        self,
        stream: Stream,
        row_loss: Pointer,
        logits: Pointer,
        targets: Pointer,
        rows: int,
        classes: int,
    ) -> None:
        """Overwrite row_loss [rows] from logits [rows,classes]; one launch."""
        check_sizes("CrossEntropy", rows=rows)
        check_sizes("CrossEntropy", least=1, classes=classes)
        if rows:
            grid = ceil_div(rows, _ROWS_A_BLOCK)
            self._forward(stream, grid, _BLOCK, row_loss, logits, targets, rows, classes)

    def forward_backward(
        self,
        stream: Stream,
        row_loss: Pointer,
        logits: Pointer,
        targets: Pointer,
        rows: int,
        classes: int,
        scale: float,
    ) -> None:
        """Overwrite row_loss [rows], and turn logits [rows,classes] into dlogits in place.

        scale: the gradient of the loss by each row_loss: 1/rows for the mean. One launch.
        """
        check_sizes("CrossEntropy", rows=rows)
        check_sizes("CrossEntropy", least=1, classes=classes)
        if rows:
            grid = ceil_div(rows, _ROWS_A_BLOCK)
            self._both(stream, grid, _BLOCK, row_loss, logits, targets, rows, classes, scale)

    def mean(self, stream: Stream, loss: Pointer, row_loss: Pointer, rows: int) -> None:
        """Overwrite loss [1] with the mean of row_loss [rows], rows >= 1; one launch."""
        check_sizes("CrossEntropy", least=1, rows=rows)
        self._mean(stream, 1, 512, loss, row_loss, rows)
