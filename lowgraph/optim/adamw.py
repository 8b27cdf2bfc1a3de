"""AdamW over flat arenas: the moments, and one launch a step for all tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from lowgraph import driver, ops
from lowgraph.errors import ConfigError
from lowgraph.kernels import Library
from lowgraph.memory import Arena, Slice
from lowgraph.ops.shapes import Pointer

__all__ = ["AdamW"]


class AdamW:
    """Loshchilov and Hutter 2019; settings, step number and learning rate are in a control block.

    parameters, gradients: arenas of one layout, padding zero. decayed_elements: from their front,
    how many take weight decay.
    ema: keep an exponential moving average of the parameters; its decay is the control block's.
    shadow: uint16, as many elements as `parameters.flat`: element i is kept the bfloat16 bits of
    parameter i. The caller's to free.
    Raises ConfigError for arenas or a shadow of another size.

    Attributes
    ----------
    state_names: what `state` has of every AdamW; with an average, "ema" too.
    moment1, moment2: arenas of the same layout, zero before the first step.
    ema: another, or None.
    """

    state_names: ClassVar[tuple[str, ...]] = ("moment1", "moment2")

    def __init__(
        self,
        library: Library,
        parameters: Arena,
        gradients: Arena,
        decayed_elements: int,
        stream: int,
        *,
        ema: bool = False,
        shadow: Slice | Arena | None = None,
    ) -> None:
        self.parameters = parameters
        self.gradients = gradients
        self.decayed_elements = decayed_elements
        self._shadow = shadow.flat if isinstance(shadow, Arena) else shadow
        self._check()
        self.moment1 = parameters.like("moment1")
        self.moment2 = parameters.like("moment2")
        self.ema = parameters.like("ema") if ema else None
        for arena in self.state.values():
            arena.zero(stream)
        self._kernel = ops.AdamW(library, ema=ema, shadow=shadow is not None)

    @property
    def state(self) -> Mapping[str, Arena]:
        """The arenas that a checkpoint keeps beside the parameters, by name."""
        kept = {"moment1": self.moment1, "moment2": self.moment2}
        return kept if self.ema is None else {**kept, "ema": self.ema}

    def parameters_loaded(self, stream: int) -> None:
        """Begin average and shadow at the present parameters, in stream order.

        For after parameters were written by something else than `step`: initial values, a
        checkpoint. A resumed average is loaded into `ema` afterwards.
        """
        flat = self.parameters.flat
        if self.ema is not None:
            driver.memory.copy_dtod_async(self.ema.flat.address, flat.address, flat.nbytes, stream)
        if self._shadow is not None:
            self._kernel.refresh(stream, self._shadow, flat, self.parameters.elements)

    def step(self, stream: int, control: Pointer, stats: Pointer) -> None:
        """Update parameters and state in place, by the control block's present step; one launch.

        stats: of these gradients (`GradientNorm.measure`); its coefficient scales them.
        """
        self._kernel.step(
            stream,
            self.parameters.flat,
            self.moment1.flat,
            self.moment2.flat,
            self.gradients.flat,
            stats,
            control,
            self.decayed_elements,
            self.parameters.elements,
            ema=0 if self.ema is None else self.ema.flat,
            shadow=0 if self._shadow is None else self._shadow,
        )

    def close(self) -> None:
        """Give the state's memory back. Idempotent."""
        for arena in self.state.values():
            arena.close()

    def _check(self) -> None:
        elements = self.parameters.elements
        if self.gradients.layout != self.parameters.layout:
            raise ConfigError(
                f"AdamW: {self.gradients.name} has another layout than {self.parameters.name}; "
                f"make it by {self.parameters.name}.like(...)"
            )
        piece = self._shadow
        if piece is not None and (piece.elements, piece.dtype) != (elements, np.dtype(np.uint16)):
            raise ConfigError(
                f"AdamW: the shadow {piece.name!r} must be uint16 [{elements}], one bfloat16 for "
                f"each element of {self.parameters.name}, not {piece.dtype} {list(piece.shape)}"
            )
