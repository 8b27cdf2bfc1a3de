"""What becomes of a step's gradients: their sum over micro-batches, their norm, the update."""

from __future__ import annotations

from lowgraph.optim.accumulation import Accumulation
from lowgraph.optim.adamw import AdamW
from lowgraph.optim.grad_norm import GradientNorm
from lowgraph.optim.sgd import Sgd

__all__ = ["Accumulation", "AdamW", "GradientNorm", "Sgd"]
