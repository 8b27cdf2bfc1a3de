"""Hugging Face folders for the tests: shapes, weights, a folder of each model, a changed config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lowgraph.models import CharLMConfig, huggingface
from lowgraph.models import huggingface_files as folders
from lowgraph.models import mamba2_parameters as mamba2
from lowgraph.models.mamba2_config import Mamba2LMConfig
from tests.models.cases import perturbed

__all__ = ["GPT2", "MAMBA2", "SHAPES", "change_config", "saved", "weights_of"]

Array = npt.NDArray[Any]

GPT2 = CharLMConfig(context=33, width=24, heads=2, layers=2, vocabulary=61)
MAMBA2 = Mamba2LMConfig(
    width=24, context=33, layers=2, vocabulary=61, expand=2, head_size=16, state=8, conv=4
)
SHAPES: dict[str, Any] = {"charlm": GPT2, "mamba2-lm": MAMBA2}


def weights_of(model: str, seed: int = 1) -> dict[str, Array]:
    if model == "charlm":
        return perturbed(GPT2, seed)
    generator = np.random.default_rng(seed)
    return {
        name: (value + 0.1 * generator.standard_normal(value.shape)).astype(np.float32)
        for name, value in mamba2.initial_values(MAMBA2, seed).items()
    }


def saved(folder: Path, model: str = "charlm") -> Path:
    """A folder that `save` wrote."""
    huggingface.save(folder, model, SHAPES[model], weights_of(model))
    return folder


def change_config(folder: Path, **changes: Any) -> None:
    """Set keys of config.json; None takes one away."""
    file = folder / folders.CONFIG_NAME
    config = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({k: v for k, v in config.items() if changes.get(k, 0) is not None}))
