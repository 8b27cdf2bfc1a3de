"""Models: the forward and the backward written out, one layer call a line."""

from __future__ import annotations

from lowgraph.models.charlm import CharLM
from lowgraph.models.mamba2 import Mamba2
from lowgraph.models.mamba2_config import Mamba2Config, Mamba2LMConfig
from lowgraph.models.mamba2_lm import Mamba2LM
from lowgraph.models.mlp import Mlp, MlpConfig
from lowgraph.models.presets import PRESETS, CharLMConfig, Preset
from lowgraph.models.registry import DEFAULT_MODEL, MODELS, ModelEntry, find_model, find_preset

__all__ = [
    "DEFAULT_MODEL",
    "MODELS",
    "PRESETS",
    "CharLM",
    "CharLMConfig",
    "Mamba2",
    "Mamba2Config",
    "Mamba2LM",
    "Mamba2LMConfig",
    "Mlp",
    "MlpConfig",
    "ModelEntry",
    "Preset",
    "find_model",
    "find_preset",
]
