"""AdamW over flat arenas in one launch (kernels_cu/adamw.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div

__all__ = ["AdamW"]


class AdamW:
    """Loshchilov and Hutter 2019, decoupled weight decay, float32, in place.

    Learning rate, betas, epsilon, weight decay and bias corrections come from the control block.
    """

    def __init__(self, library: Library) -> None:
        """Take the kernel from `library`."""
        self._step = library.kernel("adamw.cu", "adamw")

    def step(
        self,
        stream: Stream,
        param: Pointer,
        m: Pointer,
        v: Pointer,
        grad: Pointer,
        control: Pointer,
        n_decay: int,
        n: int,
    ) -> None:
        """Update param, m and v, `n` elements each; the first `n_decay` decay; one launch.

        m, v: first and second moments, zero before step 1. control: a block already advanced to
        this step (`Control.advance`).
        """
        if n:
            self._step(stream, ceil_div(n, 512), 128, param, m, v, grad, control, n_decay, n)
