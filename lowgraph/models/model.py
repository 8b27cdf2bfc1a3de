"""What every model is: parameters and gradients in flat arenas, loaded and read back by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from lowgraph import ops
from lowgraph.errors import ConfigError
from lowgraph.memory import Arena, PersistentPool, Slice, download, upload
from lowgraph.models.protocol import TrainableModel
from lowgraph.precision import BFLOAT16
from lowgraph.specs import TensorSpec

__all__ = ["Model", "load_arena", "save_arena"]


class Model:
    """The arenas of a model on a device.

    Attributes
    ----------
    parameters, gradients: arenas of the same layout, by PyTorch's names, decayed tensors first,
        float32. Both are zero until `load_state`; backward overwrites the gradients.
    shadow: the parameters as bfloat16, each at its own place of the same layout, which products
        read; None in another precision. Whoever writes parameters writes it too: the optimizer, or
        `refresh_shadow`.
    decayed_elements: elements from the front of the arenas that take weight decay (padding
        included).
    """

    def __init__(
        self,
        specs: Sequence[TensorSpec],
        decayed: int,
        pool: PersistentPool,
        stream: int,
        cast: ops.Cast | None = None,
        arenas: tuple[Arena, Arena] | None = None,
    ) -> None:
        """Take memory for `specs`, of which the first `decayed` take weight decay.

        cast: what fills the shadow; None for a model that has none. arenas: parameters and
        gradients that are somebody else's, to be used as they are; a shadow is the model's own.
        Raises ConfigError when one of them has other tensors than `specs`.
        """
        if arenas is None:
            self.parameters = Arena(pool, "parameters", specs)
            self.gradients = self.parameters.like("gradients")
            # The padding between tensors too: the optimizer runs over the whole arenas.
            self.parameters.zero(stream)
            self.gradients.zero(stream)
        else:
            self.parameters, self.gradients = arenas
            self._check(specs)
        self.decayed_elements = self.parameters.offset(specs[decayed].name)
        self._cast = cast
        self.shadow = None if cast is None else self.parameters.like("shadow", BFLOAT16)
        self.refresh_shadow(stream)

    @property
    def parameter_count(self) -> int:
        """Number of parameters, padding left out."""
        return sum(piece.elements for piece in self.parameters.values())

    def load_state(self, state: Mapping[str, npt.NDArray[np.float32]], stream: int) -> None:
        """Upload parameters by name. Raises ConfigError unless names and shapes are the model's."""
        load_arena(self.parameters, state, stream)
        self.refresh_shadow(stream)

    def refresh_shadow(self, stream: int) -> None:
        """Round the parameters into the shadow, if there is one: after they were written anew."""
        if self.shadow is not None and self._cast is not None:
            flat = self.parameters.flat
            self._cast.forward(stream, self.shadow.flat, flat, flat.elements)

    def state(self, stream: int) -> dict[str, npt.NDArray[np.float32]]:
        """Download the parameters by name; waits for the stream's work so far."""
        return save_arena(self.parameters, stream)

    def evaluate(self: TrainableModel, stream: int, inputs: Slice, targets: Slice) -> Slice:
        """Mean loss in nats, [1], of a pass that no backward follows."""
        return self.loss(stream, self.forward(stream, inputs), targets)

    def _check(self, specs: Sequence[TensorSpec]) -> None:
        for arena in (self.parameters, self.gradients):
            if arena.specs != tuple(specs):
                raise ConfigError(
                    f"{arena.name} has other tensors than the model; make it by `like` of the "
                    "parameters of a model of the same shape"
                )


def load_arena(arena: Arena, state: Mapping[str, npt.NDArray[np.float32]], stream: int) -> None:
    """Upload an arena's tensors. Raises ConfigError, before any copy, on a wrong name or shape."""
    missing, extra = arena.keys() - state.keys(), state.keys() - arena.keys()
    if missing or extra:
        raise ConfigError(
            f"{arena.name}: missing {sorted(missing) or 'none'}, unknown {sorted(extra) or 'none'}"
        )
    for name, piece in arena.items():
        if state[name].shape != piece.shape:
            raise ConfigError(
                f"{arena.name}: {name} has shape {state[name].shape}, the model wants {piece.shape}"
            )
    for name, piece in arena.items():
        upload(piece, state[name], stream)


def save_arena(arena: Arena, stream: int) -> dict[str, npt.NDArray[np.float32]]:
    """Download an arena's tensors by name; waits for the stream's work so far."""
    return {name: download(piece, stream) for name, piece in arena.items()}
