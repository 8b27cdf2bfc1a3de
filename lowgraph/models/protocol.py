"""What the trainer asks of a model and of its configuration; any class that has it will do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from lowgraph.memory import Arena, Slice

__all__ = ["ModelConfig", "TrainableModel"]


class ModelConfig(Protocol):
    """A frozen dataclass that says a model's shape, and refuses one that cannot be (ConfigError).

    A model of text has `vocabulary` too, one of series `features`: the columns of its input.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def context(self) -> int:
        """T, steps of a window."""


class TrainableModel(Protocol):
    """A model on a device: calls enqueue and return, and allocate from the pool alone.

    It is made by `Class(config, *, library, blas, pool, stream, precision, arenas)`; arenas:
    parameters and gradients that it uses in place of its own, or None.

    B windows of T steps. A model of text takes tokens, int32 [B, T], and targets of the same shape;
    one of series takes features, float32 [B, T, F], and labels in [0, 1], float32 [B, T].
    """

    @property
    def config(self) -> Any:
        """Its shape, a ModelConfig of the class that the registry names."""

    @property
    def parameters(self) -> Arena:
        """The parameters by name, those that take weight decay first."""

    @property
    def gradients(self) -> Arena:
        """Of the parameters, in the same layout; every backward overwrites them."""

    @property
    def shadow(self) -> Arena | None:
        """The parameters as bfloat16, in the same layout, for the optimizer to keep up, or None."""

    @property
    def parameter_count(self) -> int:
        """Number of parameters, padding left out."""

    @property
    def decayed_elements(self) -> int:
        """Elements from the front of the arenas that take weight decay (padding included)."""

    def forward(self, stream: int, inputs: Slice, /) -> Any:
        """The trace of a forward pass: what `loss` and `backward` read.

        A model of text has its logits there, [B * T, V], float32 or bfloat16; None where they are
        many and `loss` makes them by chunks of rows (`token_layers.rows_at_once`).
        """

    def loss(self, stream: int, trace: Any, targets: Slice, /) -> Slice:
        """Mean loss in nats, [1]; backward cannot follow."""

    def evaluate(self, stream: int, inputs: Slice, targets: Slice, /) -> Slice:
        """Mean loss in nats, [1], of a pass that no backward follows: it may keep less."""

    def loss_and_gradient(self, stream: int, trace: Any, targets: Slice, /) -> Slice:
        """As `loss`; backward may follow.

        Where it turns the trace's logits into their gradient, a later loss of that trace is a
        ConfigError.
        """

    def backward(self, stream: int, trace: Any, /) -> None:
        """Overwrite every gradient; gives the trace's slices back. After `loss_and_gradient`."""

    def load_state(self, state: Mapping[str, npt.NDArray[np.float32]], stream: int, /) -> None:
        """Upload parameters by name. Raises ConfigError unless names and shapes are the model's."""

    def refresh_shadow(self, stream: int, /) -> None:
        """Make the shadow, if there is one, of the parameters: after they were written anew."""

    def state(self, stream: int, /) -> dict[str, npt.NDArray[np.float32]]:
        """Download the parameters by name; waits for the stream's work so far."""
