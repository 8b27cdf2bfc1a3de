"""Series as data: what does not fit is refused, and the baseline."""

from __future__ import annotations

import numpy as np
import pytest

from lowgraph.driver import Device
from lowgraph.errors import ConfigError
from lowgraph.models.registry import MODELS
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
        (400, 5, 60, "360 rows are shorter than one batch (60 windows of 7 rows)"),
        (60, 5, 1, "6 rows are shorter than one held-out window (7 rows)"),
    ],
)
def test_a_series_that_does_not_fit_is_refused(
    rows: int, features: int, batch: int, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        separable_series(rows, features).check(LinearConfig(7, 5), batch)
    assert said in str(caught.value) and "; give " in str(caught.value)


def test_a_series_of_just_enough_rows(device: Device) -> None:
    """70 rows: 63 to train on, 9 windows of 7, and 7 held out, one window."""
    data = separable_series(70)
    with trained(device, data, linear_plan(batch=9)) as trainer:
        assert np.isfinite(trainer.evaluate())


def test_the_baseline_is_the_entropy_of_the_train_label_rate() -> None:
    rate = DATA.train.labels.mean(dtype=np.float64)
    want = -np.mean(np.where(DATA.train.labels == 1, np.log(rate), np.log(1 - rate)))
    assert DATA.baseline() == pytest.approx(want, rel=1e-12)
