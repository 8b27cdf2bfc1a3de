"""The whole trainer against PyTorch: same weights, the batches it draws, its schedule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lowgraph.driver import Device
from lowgraph.models.parameters import initial_values
from lowgraph.ops.philox import batch_starts
from lowgraph.train.data import Corpus
from lowgraph.train.plan import Plan
from tests.models.cases import scheduled_rate
from tests.models.oracle import MARGIN
from tests.train.runs import micro_corpus, micro_plan, trained

pytestmark = pytest.mark.both

torch = pytest.importorskip("torch", reason="the oracle extra is not installed")


def _batches(corpus: Corpus, plan: Plan) -> list[tuple[np.ndarray, np.ndarray]]:
    """Tokens and targets of every step, cut from the text where the generator says."""
    schedule, length = plan.schedule, plan.shape.context
    found = []
    for step in range(1, schedule.steps + 1):
        starts = batch_starts(schedule.seed, step, schedule.batch, length, len(corpus.train))
        windows = np.stack([corpus.train[int(at) : int(at) + length + 1] for at in starts])
        found.append((windows[:, :-1], windows[:, 1:]))
    return found


def test_a_graphed_run_follows_torch(device: Device, tmp_path: Path) -> None:
    """Strong weight decay, so that decaying a norm or a bias would show in the losses."""
    from tests.models import rival_lm

    corpus = micro_corpus(tmp_path)
    plan = micro_plan(learning_rate=0.02, weight_decay=1.0)
    schedule = plan.schedule
    settings = rival_lm.AdamWSettings(
        [scheduled_rate(schedule, step) for step in range(1, schedule.steps + 1)],
        (schedule.beta1, schedule.beta2),
        schedule.epsilon,
        schedule.weight_decay,
    )
    weights = initial_values(plan.shape, schedule.seed)
    batches = _batches(corpus, plan)
    double, _ = rival_lm.train(plan.shape, weights, batches, settings, torch.float64)
    single, _ = rival_lm.train(plan.shape, weights, batches, settings, torch.float32)
    rounding = np.max(np.abs(np.subtract(single, double)))
    with trained(device, corpus, plan) as trainer:
        assert trainer.parts.graph_step.report().replays == schedule.steps - 1
        np.testing.assert_allclose(trainer.losses, double, rtol=0, atol=MARGIN * rounding)
