"""The models there are: what the trainer, its command line and its checkpoints know of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowgraph.errors import ConfigError
from lowgraph.models import mamba2_parameters, mlp, parameters
from lowgraph.models.charlm import CharLM
from lowgraph.models.mamba2 import Mamba2
from lowgraph.models.mamba2_config import LM_PRESETS, Mamba2Config, Mamba2LMConfig
from lowgraph.models.mamba2_config import PRESETS as MAMBA2_PRESETS
from lowgraph.models.mamba2_lm import Mamba2LM
from lowgraph.models.mlp import Mlp, MlpConfig
from lowgraph.models.presets import PRESETS, CharLMConfig, Preset
from lowgraph.models.protocol import TrainableModel
from lowgraph.specs import TensorSpec

__all__ = ["DEFAULT_MODEL", "MODELS", "ModelEntry", "find_model", "find_preset"]


@dataclass(frozen=True)
class ModelEntry:
    """One model.

    Attributes
    ----------
    config: its configuration's class, a ModelConfig. build: its own class, a TrainableModel.
    presets: its named sizes. default_presets: the one that suits each kind of device.
    specs: all parameters of a config, in the order of the arenas.
    initial_values: of a config and a seed, the parameters by name, float32.
    data: what it is trained on, "text", "series" or "classes". about: what it is, in a few words.
    optimizer: what trains it, by its name in `optim.OPTIMIZERS`.
    """

    config: type[Any]
    build: Callable[..., TrainableModel]
    presets: Mapping[str, Preset[Any]]
    default_presets: Mapping[str, str]
    specs: Callable[[Any], list[TensorSpec]]
    initial_values: Callable[[Any, int], dict[str, npt.NDArray[np.float32]]]
    data: str
    about: str
    optimizer: str = "adamw"


MODELS: dict[str, ModelEntry] = {
    "charlm": ModelEntry(
        config=CharLMConfig,
        build=CharLM,
        presets=PRESETS,
        default_presets={"host": "nano", "cuda": "small"},
        specs=parameters.parameter_specs,
        initial_values=parameters.initial_values,
        data="text",
        about="a transformer over the bytes of a text",
    ),
    "mamba2": ModelEntry(
        config=Mamba2Config,
        build=Mamba2,
        presets=MAMBA2_PRESETS,
        default_presets={"host": "nano", "cuda": "perception"},
        specs=mamba2_parameters.parameter_specs,
        initial_values=mamba2_parameters.initial_values,
        data="series",
        about="a Mamba-2 block and a loop of shared weights over a series, for labels of 0 or 1",
    ),
    "mamba2-lm": ModelEntry(
        config=Mamba2LMConfig,
        build=Mamba2LM,
        presets=LM_PRESETS,
        default_presets={"host": "nano", "cuda": "small"},
        specs=mamba2_parameters.parameter_specs,
        initial_values=mamba2_parameters.initial_values,
        data="text",
        about="Mamba-2 blocks over the bytes of a text",
    ),
    "mlp": ModelEntry(
        config=MlpConfig,
        build=Mlp,
        presets=mlp.PRESETS,
        default_presets={"host": "nano", "cuda": "bench"},
        specs=mlp.parameter_specs,
        initial_values=mlp.initial_values,
        data="classes",
        about="layers with ReLU that tell classes of rows apart, trained by SGD",
        optimizer="sgd",
    ),
}

DEFAULT_MODEL = "charlm"


def find_model(name: str) -> ModelEntry:
    """The entry of that name; ConfigError listing the names there are."""
    entry = MODELS.get(name)
    if entry is None:
        raise ConfigError(f"unknown model {name!r}; there are {', '.join(MODELS)}")
    return entry


def find_preset(model: str, name: str) -> Preset[Any]:
    """The model's preset of that name; ConfigError listing the names there are."""
    presets = find_model(model).presets
    preset = presets.get(name)
    if preset is None:
        others = [other for other, entry in MODELS.items() if name in entry.presets]
        advice = f" (it is one of {', '.join(others)}: see --model)" if others else ""
        raise ConfigError(
            f"unknown preset {name!r} of {model}; there are {', '.join(presets)}{advice}"
        )
    return preset
