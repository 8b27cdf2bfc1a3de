"""Arenas of oddly sized tensors with their optimizer on the rig's device."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowgraph.memory import Arena, PersistentPool, Slice, download, upload
from lowgraph.ops import ControlBlock
from lowgraph.optim import Accumulation, AdamW, GradientNorm
from lowgraph.specs import TensorSpec
from tests.support.rig import Rig

__all__ = ["DECAYED", "SHAPES", "Bench", "Tensors", "draw"]

Tensors = dict[str, npt.NDArray[Any]]

# No size but one is a multiple of 64 elements, so that there is padding; the first two decay.
SHAPES: dict[str, tuple[int, ...]] = {
    "matrix": (33, 31), "table": (7, 257), "vector": (33,), "one": (1,), "whole": (64,)
}  # fmt: skip
DECAYED = ("matrix", "table")

SETTINGS: dict[str, Any] = {"total_steps": 20, "warmup_steps": 2, "lr_max": 0.01, "lr_min": 0.001,
                            "beta1": 0.9, "beta2": 0.95, "weight_decay": 0.1}  # fmt: skip


def draw(seed: int, scale: float = 1.0) -> Tensors:
    """Normal float32 tensors of the shapes."""
    generator = np.random.default_rng(seed)
    return {
        name: generator.normal(0.0, scale, shape).astype(np.float32)
        for name, shape in SHAPES.items()
    }


class Bench:
    """Parameters, gradients, their norm, and AdamW; `options` are the optimizer's."""

    def __init__(
        self, rig: Rig, parameters: Tensors, *, micro_batches: int = 1, shadow: bool = False,
        ema: bool = False, **settings: Any,
    ) -> None:  # fmt: skip
        self.rig, self.stream = rig, rig.stream
        self.pool = pool = PersistentPool(rig.device)
        specs = [TensorSpec(name, shape) for name, shape in SHAPES.items()]
        self.parameters = Arena(pool, "parameters", specs)
        self.gradients = self.parameters.like("gradients")
        for arena in (self.parameters, self.gradients):
            arena.zero(rig.stream)
        self.total = None
        self.summed = self.gradients
        if micro_batches > 1:
            self.total = Accumulation(rig.library, self.gradients, micro_batches)
            self.summed = self.total.gradients
        elements = self.parameters.elements
        self.shadow = pool.take("shadow", (elements,), np.uint16) if shadow else None
        self.norm = GradientNorm(rig.library, pool, elements, rig.stream)
        self.optimizer = AdamW(rig.library, self.parameters, self.summed,
                               self.parameters.offset("vector"), rig.stream, ema=ema,
                               shadow=self.shadow)  # fmt: skip
        self.control = ControlBlock(pool=pool, library=rig.library, stream=rig.stream,
                                    **{**SETTINGS, **settings})  # fmt: skip
        self.load(self.parameters, parameters)
        self.optimizer.parameters_loaded(rig.stream)

    def load(self, arena: Arena, tensors: Tensors) -> None:
        for name, values in tensors.items():
            upload(arena[name], values, self.stream)

    def save(self, arena: Arena) -> Tensors:
        return {name: download(piece, self.stream) for name, piece in arena.items()}

    def update(self, stream: int) -> None:
        """What a step does once its gradients are there."""
        self.control.advance(stream)
        self.norm.measure(stream, self.summed, self.control)
        self.optimizer.step(stream, self.control, self.norm.stats)

    def step(self, gradients: Tensors) -> None:
        self.load(self.gradients, gradients)
        self.update(self.stream)

    def padding(self, arena: Arena) -> npt.NDArray[Any]:
        """What lies between the tensors."""
        between = np.ones(arena.elements, np.bool_)
        for offset, piece in zip(arena.layout.offsets, arena.values(), strict=True):
            between[offset : offset + piece.elements] = False
        return download(arena.flat, self.stream)[between]

    def loss(self, value: float) -> Slice:
        piece = self.pool.take("loss", 1, np.float32)
        upload(piece, np.array([value], np.float32), self.stream)
        return piece

    def close(self) -> None:
        self.rig.sync()
        self.pool.close()
