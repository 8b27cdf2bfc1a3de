"""Stochastic gradient descent over flat arenas in one launch (kernels_cu/sgd.cu)."""

from __future__ import annotations

from lowgraph.errors import ConfigError
from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div

__all__ = ["Sgd"]

_ELEMENTS_A_BLOCK = 1024


class Sgd:
    """As torch.optim.SGD, float32, in place; with momentum from the `momentum` given, below 1.

    Learning rate and weight decay come from the control block, the clip coefficient from the
    gradients' stats. Raises ConfigError for a momentum outside 0 to 1.
    """

    def __init__(self, library: Library, *, momentum: float = 0.0) -> None:
        """Take the kernel from `library`; without momentum it is another one."""
        if not 0.0 <= momentum < 1.0:
            raise ConfigError(f"SGD: momentum must be from 0 to below 1, got {momentum}")
        self.momentum = momentum
        self._step = library.kernel("sgd.cu", "sgd", {"MOMENTUM": int(momentum > 0)})

    def step(
        self,
        stream: Stream,
        param: Pointer,
        grad: Pointer,
        stats: Pointer,
        control: Pointer,
        n_decay: int,
        n: int,
        *,
        m: Pointer = 0,
    ) -> None:
        """Update param, and m with momentum, `n` elements; the first `n_decay` decay; one launch.

        m: zero before step 1. grad: only read; what is not finite in it counts as 0. stats: of
        `grad` (`GradientNorm.measure`). control: a block already advanced to this step.
        Raises ConfigError for an m without momentum, or none with it.
        """
        if (m != 0) != (self.momentum > 0):
            wants = "needs an m, zero before step 1" if self.momentum > 0 else "has no m"
            raise ConfigError(f"SGD: momentum {self.momentum:g} {wants}")
        if n == 0:
            return
        grid = ceil_div(n, _ELEMENTS_A_BLOCK)
        given = param, m, grad, stats, control, self.momentum, n_decay, n
        self._step(stream, grid, 128, *given)
