"""mamba2 learns one batch by heart, through feed, graph and optimizer; a model that lacks a part
cannot.

The features are one of four symbols a step, the labels are random: what a step's own features say
about its label is next to nothing, so that a loss near zero takes the steps before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowgraph.driver import Device
from lowgraph.memory import Slice, fill_zero
from lowgraph.models.mamba2_config import PRESETS
from lowgraph.models.mamba2_layers import Looped, PerceptionLayers
from lowgraph.train.config import TrainConfig
from lowgraph.train.loop import Trainer
from lowgraph.train.plan import Plan, Schedule
from lowgraph.train.series import Rows, Series

pytestmark = pytest.mark.both

SHAPE = PRESETS["nano"].model
STEPS = 200
BAR = 0.01  # of the first loss; whole models end at 4e-5 of it, those that lack a part above 0.03


def _one_window(seed: int) -> Series:
    """As many rows as a window has, so that every window is the same."""
    generator = np.random.default_rng(seed)
    symbols = generator.standard_normal((4, SHAPE.features)).astype(np.float32)
    features = symbols[generator.integers(0, 4, SHAPE.context)]
    labels = generator.integers(0, 2, SHAPE.context).astype(np.float32)
    rows = Rows(features, labels)
    return Series("one window", "four symbols, random labels", f"{seed:064x}", rows, rows)


def _left_over(device: Device, seed: int) -> float:
    """The last loss over the first."""
    schedule = Schedule(
        steps=STEPS, warmup=10, learning_rate=2e-2, batch=1, seed=seed, weight_decay=0.0
    )
    plan = Plan("mamba2", "nano", SHAPE, schedule, log_every=50)
    with Trainer(device, TrainConfig(), plan, _one_window(seed)) as trainer:
        trainer.train()
        assert trainer.parts.graph_step.report().replays == STEPS - 1
        print(f"loss {trainer.losses[0]:.4f} to {trainer.losses[-1]:.6f}")
        return trainer.losses[-1] / trainer.losses[0]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_batch_is_learnt_by_heart(device: Device, seed: int) -> None:
    assert _left_over(device, seed) < BAR


def _no_block(layers: PerceptionLayers, stream: int, x: Slice, branch: Slice) -> Looped:
    fill_zero(branch, stream)
    return LOOP(layers, stream, x, branch)


def _still_loop(
    layers: PerceptionLayers, stream: int, dh: Slice, looped: Looped, *more: Any
) -> Any:
    found = LOOP_BACKWARD(layers, stream, dh, looped, *more)
    fill_zero(dh, stream)
    return found


LOOP, LOOP_BACKWARD = PerceptionLayers.loop, PerceptionLayers.loop_backward
CRIPPLES = {
    "the block says nothing": (PerceptionLayers, "loop", _no_block),
    "the loop sends no gradient back": (PerceptionLayers, "loop_backward", _still_loop),
}


@pytest.mark.parametrize("name", CRIPPLES)
def test_a_model_that_lacks_a_part_does_not_pass_the_same_bar(
    device: Device, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*CRIPPLES[name])
    assert _left_over(device, 1) > BAR
