"""Models: the forward and the backward written out, one layer call a line."""

from __future__ import annotations

from lowgraph.models.charlm import CharLM
from lowgraph.models.presets import MODELS, PRESETS, CharLMConfig, Preset

__all__ = ["MODELS", "PRESETS", "CharLM", "CharLMConfig", "Preset"]
