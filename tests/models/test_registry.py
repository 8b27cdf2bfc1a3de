"""Every entry of the registry is whole, and names that it lacks are refused."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.models.registry import DEFAULT_MODEL, MODELS, find_model, find_preset
from lowgraph.optim import OPTIMIZERS


@pytest.mark.parametrize("name", MODELS)
def test_an_entry_is_whole(name: str) -> None:
    """Presets are of its configuration, and the initial values are of what the specs say."""
    entry = find_model(name)
    assert entry.data in ("text", "series", "classes")
    assert entry.optimizer in OPTIMIZERS
    assert set(entry.default_presets) == {"host", "cuda"}
    assert set(entry.default_presets.values()) <= set(entry.presets)
    for preset in entry.presets.values():
        assert type(preset.model) is entry.config
        names = {field.name for field in fields(preset.model)}
        wanted = {
            "text": {"vocabulary"},
            "series": {"features"},
            "classes": {"features", "classes"},
        }
        assert names >= wanted[entry.data]
        assert preset.model.context >= 1
    smallest = find_preset(name, entry.default_presets["host"]).model
    values, specs = entry.initial_values(smallest, 3), entry.specs(smallest)
    assert list(values) and {spec.name: spec.shape for spec in specs} == {
        key: value.shape for key, value in values.items()
    }
    assert all(value.dtype == np.float32 for value in values.values())
    again, other = entry.initial_values(smallest, 3), entry.initial_values(smallest, 4)
    assert all((again[key] == values[key]).all() for key in values)
    assert any((other[key] != values[key]).any() for key in values)


def test_unknown_names_are_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="unknown model 'gpt9'; there are charlm"):
        find_model("gpt9")
    with pytest.raises(ConfigError, match="unknown preset 'huge' of charlm; there are nano, tiny"):
        find_preset("charlm", "huge")
    assert DEFAULT_MODEL in MODELS
