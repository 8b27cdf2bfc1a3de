"""Shapes of the Mamba-2 models that cannot be, and the values that their parameters begin with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.models.mamba2_config import LM_PRESETS, PRESETS, Mamba2Config, Mamba2LMConfig
from lowgraph.models.mamba2_parameters import decayed_count, initial_values, parameter_specs

Config = Mamba2Config | Mamba2LMConfig

CONFIGS = [
    Mamba2Config(features=3, width=24, context=5, head_size=12, state=6, conv=3),
    Mamba2LMConfig(width=20, context=7, layers=3, vocabulary=11, head_size=10, state=5),
]

# What is wrong, and what the message says to do about it or names as wrong.
REFUSED: list[tuple[type[Config], dict[str, Any], str]] = [
    *[
        (Mamba2Config, {name: 0}, f"^model: {name} must be at least 1, got 0$")
        for name in ("features", "width", "context", "expand", "head_size", "state", "loops")
    ],
    *[
        (Mamba2LMConfig, {name: -1}, f"^model: {name} must be at least 1, got -1$")
        for name in ("width", "context", "layers", "vocabulary", "state", "conv")
    ],
    (Mamba2Config, {"width": 36, "head_size": 8}, "36 is no multiple of 8, .* choose 32 or 40"),
    (Mamba2Config, {"width": 4, "head_size": 8}, "choose 8$"),
    (Mamba2Config, {"head_size": 48}, "48 channels do not divide .* = 128; choose a head_size"),
    (Mamba2LMConfig, {"head_size": 256}, "256 channels do not divide .* = 128; choose a head_s"),
    (Mamba2Config, {"conv": 9}, "conv must be 1 to 8, got 9"),
    (Mamba2LMConfig, {"conv": 9}, "conv must be 1 to 8, got 9"),
    (Mamba2LMConfig, {"width": 65536, "head_size": 1}, "more than the 65535 .* choose a larger"),
    *[
        (Mamba2Config, {"loops": depth}, "^model: loops must be .* a graph records one depth, .*;")
        for depth in ((2, 6), range(2, 6), lambda: 4, 4.0)
    ],
    (Mamba2Config, {"width": "64"}, "^model: width must be a whole number, got '64'$"),
    (Mamba2Config, {"state": 2**26}, r"64 x 67108864 elements .* choose a smaller head_size or"),
]


@pytest.mark.parametrize(("kind", "change", "message"), REFUSED)
def test_a_shape_that_cannot_be_is_refused(
    kind: type[Config], change: dict[str, Any], message: str
) -> None:
    sizes = {"width": 64, "context": 8}
    sizes["features" if kind is Mamba2Config else "layers"] = 2
    kind(**sizes)
    with pytest.raises(ConfigError, match=message):
        kind(**{**sizes, **change})


@pytest.mark.parametrize("presets", [PRESETS, LM_PRESETS])
def test_presets_have_a_shape_and_training_of_their_own(presets: dict[str, Any]) -> None:
    for preset in presets.values():
        assert preset.model.mixer.heads >= 1
        assert min(preset.batch, preset.steps, preset.learning_rate) > 0


def test_perception_is_the_published_shape() -> None:
    model = PRESETS["perception"].model
    assert (model.features, model.width, model.context, model.loops) == (32, 128, 64, 4)
    sizes = model.mixer
    assert (sizes.inner, sizes.heads, sizes.head_size, sizes.state) == (256, 4, 64, 64)
    assert (sizes.conv, sizes.convolved, sizes.projected) == (4, 384, 644)


@pytest.mark.parametrize("config", CONFIGS)
def test_matrices_come_first_and_decay(config: Config) -> None:
    specs = parameter_specs(config)
    decayed = [spec.name for spec in specs[: decayed_count(config)]]
    assert decayed == [spec.name for spec in specs if len(spec.shape) > 1]
    assert not any(name.endswith((".bias", "dtb", "Alog", "A_log", ".D", "nw")) for name in decayed)


@pytest.mark.parametrize("config", CONFIGS)
def test_initial_values_are_the_published_ones(config: Config) -> None:
    values = initial_values(config, seed=3)
    specs = parameter_specs(config)
    assert {name: value.shape for name, value in values.items()} == {
        spec.name: spec.shape for spec in specs
    }
    assert all(value.dtype == np.float32 for value in values.values())
    for name, value in values.items():
        if name.endswith(("dtb", "dt_bias")):
            steps = np.log1p(np.exp(value.astype(np.float64)))
            assert steps.min() > 0.999e-3
            assert steps.max() < 0.1001
        elif name == "m.Alog":
            np.testing.assert_allclose(np.exp(value), [1, 2, 3, 4], rtol=1e-6)
        elif name.endswith("A_log"):
            assert np.exp(value).min() >= 0.999
            assert np.exp(value).max() < 16.001
        elif name.endswith((".D", "nw", "norm.weight", "norm_f.weight")):
            assert (value == 1).all()
        elif name.endswith("embeddings.weight"):
            assert 0.015 < value.std() < 0.025
        else:
            assert np.abs(value).min() > 0


@pytest.mark.parametrize("config", CONFIGS)
def test_weights_lie_within_their_bound_and_reach_it(config: Config) -> None:
    """One over the square root of a matrix's inputs; less for what adds to a deep stream."""
    values = initial_values(config, seed=4)
    depth = getattr(config, "layers", 1)
    for name, value in values.items():
        if value.ndim == 1 or name.endswith("embeddings.weight"):
            continue
        inputs = value[0].size * (depth if name.endswith("out_proj.weight") else 1)
        assert 0.8 / np.sqrt(inputs) < np.abs(value).max() <= 1 / np.sqrt(inputs) * (1 + 1e-6), name


@pytest.mark.parametrize("config", CONFIGS)
def test_a_seed_is_a_start_of_its_own(config: Config) -> None:
    first, again, other = (initial_values(config, seed) for seed in (1, 1, 2))
    for name, value in first.items():
        np.testing.assert_array_equal(value, again[name])
    assert any((value != other[name]).any() for name, value in first.items())
