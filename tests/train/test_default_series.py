"""The default series: its rows against a slow twin, and what is said where it is not there."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.models.mamba2_config import PRESETS
from lowgraph.train.default_series import MOST_FEATURES, read_default_series


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """300 values in the place of the recording's, with ties."""
    values = np.random.default_rng(3).integers(0, 9, 300).astype("<f4")
    (tmp_path / "sample_data").mkdir()
    (tmp_path / "sample_data" / "membrane.dat").write_bytes(values.tobytes())
    monkeypatch.setattr(matplotlib, "get_data_path", lambda: str(tmp_path))
    return values.astype(np.float64)


def test_rows_are_a_value_its_latest_changes_and_whether_the_next_is_higher(
    tiny: np.ndarray,
) -> None:
    rows, labels = [], []
    for now in range(MOST_FEATURES - 1, len(tiny) - 1):
        changes = [tiny[now - lag] - tiny[now - lag - 1] for lag in range(MOST_FEATURES - 1)]
        rows.append([tiny[now], *changes])
        labels.append(float(tiny[now + 1] > tiny[now]))
    features, cut = np.array(rows), len(rows) * 9 // 10
    scaled = (features - features[:cut].mean(0)) / features[:cut].std(0)
    series = read_default_series()
    found = np.concatenate([series.train.features, series.heldout.features])
    np.testing.assert_allclose(found, scaled, rtol=1e-6, atol=1e-7)  # one rounding to float32
    assert len(series.train.labels) == cut
    assert np.concatenate([series.train.labels, series.heldout.labels]).tolist() == labels


@pytest.mark.parametrize(("asked", "given"), [(1, 1), (8, 8), (32, 32), (40, 32)])
def test_a_model_takes_as_many_of_the_features_as_it_has(
    tiny: np.ndarray, asked: int, given: int
) -> None:
    whole = read_default_series()
    series, shape = whole.fit(replace(PRESETS["nano"].model, features=asked))
    assert series.features == shape.features == given
    assert np.array_equal(series.heldout.features, whole.heldout.features[:, :given])
    assert series.sha256 == whole.sha256


def test_every_preset_can_be_trained_on_it() -> None:
    whole = read_default_series()
    for preset in PRESETS.values():
        series, shape = whole.fit(preset.model)
        assert shape == preset.model
        series.check(shape, preset.batch)
        assert 0.5 < series.baseline() < 0.7


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"give --data FILE\.csv .* pip install 'lowgraph\[plot"):
        read_default_series()


def test_a_matplotlib_without_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matplotlib, "get_data_path", lambda: str(tmp_path))
    with pytest.raises(ConfigError, match=r"has no membrane\.dat .* give --data FILE\.csv"):
        read_default_series()
