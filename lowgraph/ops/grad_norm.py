"""Global norm of the gradients, clip coefficient, masked elements (kernels_cu/grad_norm.cu)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div

__all__ = [
    "STATS_DTYPE",
    "GradientNorm",
    "GradientStats",
    "new_stats",
    "read_stats",
    "stats_bytes",
]

STATS_DTYPE: np.dtype[Any] = np.dtype(
    [
        ("norm", np.float64),
        ("masked", np.int64),
        ("masked_total", np.int64),
        ("masked_steps", np.int64),
        ("coefficient", np.float32),
        ("ticket", np.uint32),
    ],
    align=True,
)
"""What is known of a step's gradients, 40 bytes; kernels_cu/common/gradient.cuh is the same."""

_MOST_BLOCKS = 2048
_ELEMENTS_A_BLOCK = 2048


class GradientStats(NamedTuple):
    """The gradients of the last step that was measured, and totals over all of them.

    norm: global norm before clipping; an element that is not finite counts as 0.
    masked: elements that were not finite. masked_total: the same of all steps. masked_steps: steps
    with any. coefficient: what clipping scales by, at most 1.
    """

    norm: float
    masked: int
    masked_total: int
    masked_steps: int
    coefficient: float


class GradientNorm:
    """norm = sqrt(sum of grad^2); coefficient = min(1, clip_norm / (norm + 1e-6)).

    As torch.nn.utils.clip_grad_norm_, but that an element that is not finite counts as 0 instead
    of making all of the gradients so. clip_norm is the control block's; 0 makes the coefficient 1.
    """

    def __init__(self, library: Library) -> None:
        """Take the kernels from `library`."""
        self._norm = library.kernel("grad_norm.cu", "grad_norm")

    @staticmethod
    def partial_shape(n: int) -> tuple[int, int]:
        """Return the shape of the workspace, float64, for n elements; a function of n alone."""
        return (min(_MOST_BLOCKS, max(1, ceil_div(n, _ELEMENTS_A_BLOCK))), 2)

    def measure(
        self,
        stream: Stream,
        stats: Pointer,
        partial: Pointer,
        grad: Pointer,
        control: Pointer,
        n: int,
    ) -> None:
        """Rewrite stats for grad [n], which is only read; one launch.

        stats: 40 bytes, zero before the first step; its totals are added to. partial: workspace of
        `partial_shape(n)`. Launches that share stats follow one another.
        """
        blocks = self.partial_shape(n)[0]
        self._norm(stream, blocks, 128, stats, partial, grad, control, n)


def new_stats() -> np.ndarray[Any, np.dtype[Any]]:
    """Return stats of no step that clip nothing, as an array of shape (1,)."""
    stats = np.zeros(1, STATS_DTYPE)
    stats["coefficient"] = 1.0
    return stats


def stats_bytes(stats: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return stats as their 40 bytes (uint8), for an upload."""
    return np.ascontiguousarray(stats).view(np.uint8).reshape(-1)


def read_stats(data: np.ndarray[Any, np.dtype[np.uint8]]) -> GradientStats:
    """Return downloaded stats' 40 bytes as Python numbers."""
    stats = np.ascontiguousarray(data).view(STATS_DTYPE).reshape(-1)[0]
    return GradientStats(*(stats[name].item() for name in GradientStats._fields))
