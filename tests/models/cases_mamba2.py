"""Weights and batches for the tests of the Mamba-2 models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lowgraph.models.mamba2_config import Mamba2Config, Mamba2LMConfig
from lowgraph.models.mamba2_parameters import initial_values
from lowgraph.train.plan import Schedule
from tests.models.cases import scheduled_rate

if TYPE_CHECKING:
    from tests.models.torch_oracle import AdamWSettings

__all__ = ["batch_of", "perturbed", "settings_of"]

Array = npt.NDArray[Any]
Config = Mamba2Config | Mamba2LMConfig


def perturbed(config: Config, seed: int) -> dict[str, npt.NDArray[np.float32]]:
    """Initial weights moved off their symmetric values: a norm's ones would hide a dropped norm."""
    generator = np.random.default_rng(seed)
    return {
        name: (value + 0.1 * generator.standard_normal(value.shape)).astype(np.float32)
        for name, value in initial_values(config, seed).items()
    }


def batch_of(config: Config, batch: int, seed: int) -> tuple[Array, Array]:
    """Random inputs and targets: features and events, or tokens."""
    generator = np.random.default_rng(seed)
    shape = (batch, config.context)
    if isinstance(config, Mamba2LMConfig):
        tokens = generator.integers(0, config.vocabulary, shape, dtype=np.int32)
        return tokens, generator.integers(0, config.vocabulary, shape, dtype=np.int32)
    inputs = generator.standard_normal((*shape, config.features)).astype(np.float32)
    return inputs, (generator.random(shape) > 0.5).astype(np.float32)


def settings_of(schedule: Schedule) -> AdamWSettings:
    """The schedule as PyTorch's AdamW takes it."""
    from tests.models.torch_oracle import AdamWSettings  # PyTorch is not always installed

    rates = [scheduled_rate(schedule, step) for step in range(1, schedule.steps + 1)]
    betas = schedule.beta1, schedule.beta2
    return AdamWSettings(rates, betas, schedule.epsilon, schedule.weight_decay)
