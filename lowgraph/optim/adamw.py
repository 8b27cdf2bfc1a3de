"""AdamW over flat arenas: the moments, and one launch a step for all tensors."""

from __future__ import annotations

from lowgraph import ops
from lowgraph.kernels import Library
from lowgraph.memory import Arena, Slice

__all__ = ["AdamW"]


class AdamW:
    """Loshchilov and Hutter 2019; settings, step number and learning rate are in a control block.

    parameters, gradients: arenas of one layout. decayed_elements: from their front, how many take
    weight decay. moment1, moment2: arenas of the same layout, zero before the first step.
    """

    def __init__(
        self,
        library: Library,
        parameters: Arena,
        gradients: Arena,
        decayed_elements: int,
        stream: int,
    ) -> None:
        self.parameters = parameters
        self.gradients = gradients
        self.decayed_elements = decayed_elements
        self.moment1 = parameters.like("moment1")
        self.moment2 = parameters.like("moment2")
        self.moment1.zero(stream)
        self.moment2.zero(stream)
        self._kernel = ops.AdamW(library)

    def step(self, stream: int, control: Slice) -> None:
        """Update parameters and moments in place, by the control block's present step."""
        self._kernel.step(
            stream,
            self.parameters.flat,
            self.moment1.flat,
            self.moment2.flat,
            self.gradients.flat,
            control,
            self.decayed_elements,
            self.parameters.elements,
        )
