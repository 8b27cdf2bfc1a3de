"""Softmax cross-entropy and its mean (kernels_cu/cross_entropy.cu, cross_entropy_wide.cu)."""

from __future__ import annotations

from functools import cached_property

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes
from lowgraph.precision import Precision

__all__ = ["CrossEntropy"]

_BLOCK = 128
_ROWS_A_BLOCK = 8  # sixteen threads a row

# From here on a block of 512 threads takes a row: each has a vector of 16 bytes at least.
_WIDE_CLASSES, _WIDE_BLOCK = 4096, 512
_VECTOR, _TURN = 16, 2 * _WIDE_BLOCK  # bytes; vectors that a block takes at once
_MOST_TURNS = 7  # 112 KiB: two blocks a multiprocessor
_STATIC = 1024  # bytes of shared memory, and more, that are not the row's


class _Wide:
    """The kernels for many classes.

    room: how many vectors of a row shared memory has, a multiple of what a block takes at once.
    """

    def __init__(self, library: Library, precision: Precision) -> None:
        file, types = "cross_entropy_wide.cu", {"act_t": precision.ctype}
        self.forward = library.kernel(file, "cross_entropy_wide_forward", types)
        self.both = library.kernel(file, "cross_entropy_wide_forward_backward", types)
        turns = (library.device.most_shared - _STATIC) // (_VECTOR * _TURN)
        self._room, self._logit_bytes = min(turns, _MOST_TURNS) * _TURN, precision.operand.itemsize
        self.both.allow_shared(self._room * _VECTOR)

    def room(self, classes: int) -> int:
        return min(self._room, classes * self._logit_bytes // _VECTOR)


class CrossEntropy:
    """row_loss[r] = logsumexp(logits[r]) - logits[r,targets[r]], in nats; int32 targets.

    precision: logits and their gradient are bfloat16 with BF16, else float32, as all others are. A
    target outside [0, classes) reads outside its row: targets are the caller's to check. The
    kernels for 4096 classes and more are compiled and loaded at the first call that has such, which
    a capture refuses: let an eager call go before it.
    """

    def __init__(self, library: Library, precision: Precision = Precision.FP32) -> None:
        """Take the kernels from `library`."""
        types = {"act_t": precision.ctype}
        self._forward = library.kernel("cross_entropy.cu", "cross_entropy_forward", types)
        self._both = library.kernel("cross_entropy.cu", "cross_entropy_forward_backward", types)
        self._mean = library.kernel("cross_entropy.cu", "mean_loss", types)
        self._library, self._precision = library, precision

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
        if not rows:
            return
        where = row_loss, logits, targets
        if classes >= _WIDE_CLASSES:
            self._wide.forward(stream, rows, _WIDE_BLOCK, *where, classes)
        else:
            grid = ceil_div(rows, _ROWS_A_BLOCK)
            self._forward(stream, grid, _BLOCK, *where, rows, classes)

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
        if not rows:
            return
        where = row_loss, logits, targets
        if classes >= _WIDE_CLASSES:
            room = self._wide.room(classes)
            sizes, shared = (classes, room, scale), room * _VECTOR
            self._wide.both(stream, rows, _WIDE_BLOCK, *where, *sizes, shared=shared)
        else:
            grid = ceil_div(rows, _ROWS_A_BLOCK)
            self._both(stream, grid, _BLOCK, *where, rows, classes, scale)

    @cached_property
    def _wide(self) -> _Wide:
        return _Wide(self._library, self._precision)

    def mean(self, stream: Stream, loss: Pointer, row_loss: Pointer, rows: int) -> None:
        """Overwrite loss [1] with the mean of row_loss [rows], rows >= 1; one launch."""
        check_sizes("CrossEntropy", least=1, rows=rows)
        self._mean(stream, 1, 512, loss, row_loss, rows)
