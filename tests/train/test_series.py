"""Series as data: what does not fit is refused, and the baseline."""

from __future__ import annotations

import numpy as np
import pytest

from lowgraph.driver import Device
from lowgraph.errors import ConfigError
from lowgraph.models.registry import MODELS
from lowgraph.train.series import constant_cross_entropy
from tests.train.linear_series import LINEAR, LinearConfig, linear_plan, separable_series
from tests.train.runs import trained

DATA = separable_series()


@pytest.fixture(autouse=True)
def linear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "linear", LINEAR)


@pytest.mark.parametrize(
    ("rows", "features", "batch", "said"),
    [
        (400, 4, 3, "has 4 features, the model takes 5"),
        (60, 5, 1, "6 rows held out are shorter than one window (7 rows)"),
        (7, 5, 1, "6 rows to train on are shorter than one window (7 rows)"),
    ],
)
def test_a_series_that_does_not_fit_is_refused(
    rows: int, features: int, batch: int, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        separable_series(rows, features).check(LinearConfig(7, 5), batch)
    assert said in str(caught.value) and "; give " in str(caught.value)


def test_a_series_of_just_enough_rows(device: Device) -> None:
    """70 rows: 63 to train on, of which a batch of 12 windows of 7 takes some twice; 7 held out."""
    data = separable_series(70)
    with trained(device, data, linear_plan(batch=12)) as trainer:
        assert np.isfinite(trainer.evaluate())


def test_the_baseline_is_the_least_that_a_constant_costs_on_the_held_out_labels() -> None:
    heldout = DATA.heldout.labels
    guesses = np.linspace(0.001, 0.999, 9999)[:, None]
    costs = -np.where(heldout == 1, np.log(guesses), np.log(1 - guesses)).mean(axis=1)
    assert DATA.baseline() <= costs.min() + 1e-12
    assert DATA.baseline() == pytest.approx(costs.min(), rel=1e-6)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_labels_that_are_all_alike_cost_a_constant_nothing(label: float) -> None:
    assert constant_cross_entropy(np.full(3, label, np.float32)) == 0.0
