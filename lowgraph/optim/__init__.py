"""Optimizers that update a model's arenas in place."""

from __future__ import annotations

from lowgraph.optim.adamw import AdamW

__all__ = ["AdamW"]
