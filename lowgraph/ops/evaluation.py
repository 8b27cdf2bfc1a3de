"""The losses of an evaluation's batches, kept on the device (kernels_cu/evaluation.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, check_sizes

__all__ = ["EvaluationRecord"]


class EvaluationRecord:
    """losses[cursor] = loss, and the cursor goes on."""

    def __init__(self, library: Library) -> None:
        """Take the kernel from `library`."""
        self._record = library.kernel("evaluation.cu", "evaluation_record")

    def write(
        self, stream: Stream, losses: Pointer, cursor: Pointer, loss: Pointer, slots: int
    ) -> None:
        """Write loss [1] at losses[cursor], of losses [slots], and raise cursor, int64 [1].

        Behind the last slot both stay as they are. One launch, the last of a batch.
        """
        check_sizes("EvaluationRecord", least=1, slots=slots)
        self._record(stream, 1, 1, losses, cursor, loss, slots)
