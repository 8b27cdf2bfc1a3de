"""The held-out loss as the NumPy model has it."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowgraph.train.data import Corpus, heldout_plan
from lowgraph.train.plan import Plan
from tests.models import reference


def heldout_loss(plan: Plan, corpus: Corpus, weights: dict[str, Any]) -> float:
    """In float64, on the four batches that the plan of an evaluation names."""
    context = plan.shape.context
    windows, starts = heldout_plan(len(corpus.heldout), context, plan.schedule.batch, 4)
    double = {name: value.astype(np.float64) for name, value in weights.items()}
    losses = []
    for start in starts:
        piece = corpus.heldout[start : start + windows * context + 1].astype(np.int64)
        tokens, targets = (part.reshape(windows, context) for part in (piece[:-1], piece[1:]))
        losses.append(reference.loss_and_gradients(plan.shape, double, tokens, targets)[0])
    return float(np.mean(losses))
