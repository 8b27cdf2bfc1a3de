"""Stochastic gradient descent over flat arenas: one launch a step for all tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from lowgraph import ops
from lowgraph.errors import ConfigError
from lowgraph.kernels import Library
from lowgraph.memory import Arena
from lowgraph.ops.shapes import Pointer

__all__ = ["Sgd"]


class Sgd:
    """As torch.optim.SGD; step number, learning rate and weight decay are in a control block.

    parameters, gradients: arenas of one layout, padding zero. decayed_elements: from their front,
    how many take weight decay. momentum: 0 keeps no state. shadow: an arena of that layout whose
    bfloat16 bits are kept those of the parameters.
    Raises ConfigError for arenas of different layouts, a momentum outside 0 to 1, or an average of
    the weights (ema), which only AdamW keeps.

    Attributes
    ----------
    state_names: what `state` has of every SGD; with momentum, "momentum" too. ema: None.
    momentum: an arena of the same layout, zero before the first step; None without momentum.
    """

    state_names: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        library: Library,
        parameters: Arena,
        gradients: Arena,
        decayed_elements: int,
        stream: int,
        *,
        momentum: float = 0.0,
        ema: bool = False,
        shadow: Arena | None = None,
    ) -> None:
        if ema:
            raise ConfigError("SGD keeps no average of the weights; leave out --ema")
        if gradients.layout != parameters.layout:
            raise ConfigError(
                f"SGD: {gradients.name} has another layout than {parameters.name}; "
                f"make it by {parameters.name}.like(...)"
            )
        self.ema: Arena | None = None
        self.parameters = parameters
        self.gradients = gradients
        self.decayed_elements = decayed_elements
        self._shadow = shadow
        self._cast = None if shadow is None else ops.Cast(library)
        self._kernel = ops.Sgd(library, momentum=momentum)
        self.momentum = parameters.like("momentum") if momentum > 0 else None
        for arena in self.state.values():
            arena.zero(stream)

    @property
    def state(self) -> Mapping[str, Arena]:
        """The arenas that a checkpoint keeps beside the parameters, by name."""
        return {} if self.momentum is None else {"momentum": self.momentum}

    def parameters_loaded(self, stream: int) -> None:
        """Begin the shadow at the present parameters, in stream order."""
        if self._shadow is not None and self._cast is not None:
            flat = self.parameters.flat
            self._cast.forward(stream, self._shadow.flat, flat, flat.elements)

    def step(self, stream: int, control: Pointer, stats: Pointer) -> None:
        """Update parameters and state in place, by the control block's present step.

        One launch, and another one for a shadow. stats: of these gradients
        (`GradientNorm.measure`); its coefficient scales them.
        """
        self._kernel.step(
            stream,
            self.parameters.flat,
            self.gradients.flat,
            stats,
            control,
            self.decayed_elements,
            self.parameters.elements,
            m=0 if self.momentum is None else self.momentum.flat,
        )
        self.parameters_loaded(stream)

    def close(self) -> None:
        """Give the state's memory back. Idempotent."""
        for arena in self.state.values():
            arena.close()
