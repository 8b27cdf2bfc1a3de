"""What becomes of a step's gradients: their sum over micro-batches, their norm, the update."""

from __future__ import annotations

from lowgraph.optim.accumulation import Accumulation
from lowgraph.optim.adamw import AdamW
from lowgraph.optim.grad_norm import GradientNorm
from lowgraph.optim.sgd import Sgd

__all__ = ["OPTIMIZERS", "Accumulation", "AdamW", "GradientNorm", "Optimizer", "Sgd"]

Optimizer = AdamW | Sgd
"""What turns gradients into an update: `step`, `state`, `parameters_loaded`, `close`."""

OPTIMIZERS: dict[str, type[AdamW] | type[Sgd]] = {"adamw": AdamW, "sgd": Sgd}
"""By the name that a model's registry entry has."""
