"""The NumPy reference: its gradients are the slopes of its loss, and PyTorch agrees with it."""

from __future__ import annotations

import numpy as np
import pytest

from lowgraph.models.parameters import initial_values, parameter_specs
from lowgraph.models.presets import CharLMConfig
from tests.models import reference
from tests.models.cases import batch_of, perturbed

CONFIG = CharLMConfig(context=7, width=12, heads=3, layers=2, vocabulary=11)


def test_gradients_are_slopes() -> None:
    """Central differences in float64 along a random direction of every tensor."""
    weights = {k: v.astype(np.float64) for k, v in perturbed(CONFIG, seed=1).items()}
    tokens, targets = batch_of(CONFIG, batch=2, seed=2)
    _, grads = reference.loss_and_gradients(CONFIG, weights, tokens, targets)
    generator = np.random.default_rng(3)
    for name, value in weights.items():
        direction = generator.standard_normal(value.shape)
        direction /= np.linalg.norm(direction)
        losses = []
        for side in (1e-5, -1e-5):
            moved = {**weights, name: value + side * direction}
            losses.append(reference.loss_and_gradients(CONFIG, moved, tokens, targets)[0])
        slope = (losses[0] - losses[1]) / 2e-5
        along = float(np.sum(grads[name] * direction))
        assert along == pytest.approx(slope, rel=1e-6, abs=1e-9), name


def test_every_parameter_has_a_gradient_and_none_is_extra() -> None:
    weights = initial_values(CONFIG, seed=0)
    tokens, targets = batch_of(CONFIG, batch=1, seed=0)
    _, grads = reference.loss_and_gradients(CONFIG, weights, tokens, targets)
    assert grads.keys() == {spec.name for spec in parameter_specs(CONFIG)}


def test_torch_agrees() -> None:
    torch = pytest.importorskip("torch", reason="the oracle extra is not installed")
    from tests.models import rival_lm

    weights = perturbed(CONFIG, seed=4)
    tokens, targets = batch_of(CONFIG, batch=3, seed=5)
    theirs = rival_lm.gradients(CONFIG, weights, tokens, targets, torch.float64)
    double = {k: v.astype(np.float64) for k, v in weights.items()}
    loss, ours = reference.loss_and_gradients(CONFIG, double, tokens, targets)
    assert loss == pytest.approx(theirs.loss, rel=1e-12)
    for name, gradient in theirs.by_name.items():
        np.testing.assert_allclose(ours[name], gradient, rtol=1e-9, atol=1e-12, err_msg=name)
