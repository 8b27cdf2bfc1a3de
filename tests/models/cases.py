"""Weights and batches for the model's tests."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from lowgraph.models.parameters import initial_values
from lowgraph.models.presets import CharLMConfig
from lowgraph.train.plan import Schedule

__all__ = ["CASES", "batch_of", "perturbed", "scheduled_rate"]

# Context, width, heads, layers, vocabulary, batch: odd sizes around the kernels' tiles of 4 to 64.
CASES = {
    "odd": (CharLMConfig(33, 24, 2, 2, 61), 3),
    "small-heads": (CharLMConfig(17, 20, 5, 1, 256), 2),
    "long": (CharLMConfig(70, 32, 1, 1, 37), 1),
    "one-token": (CharLMConfig(1, 8, 1, 1, 5), 4),
    "deep": (CharLMConfig(9, 12, 3, 4, 256), 5),
}


def perturbed(config: CharLMConfig, seed: int) -> dict[str, npt.NDArray[np.float32]]:
    """Initial weights moved off their symmetric values: zero biases would hide a dropped bias."""
    generator = np.random.default_rng(seed)
    values = initial_values(config, seed)
    return {
        name: (value + 0.1 * generator.standard_normal(value.shape)).astype(np.float32)
        for name, value in values.items()
    }


def batch_of(
    config: CharLMConfig, batch: int, seed: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Random tokens and targets, int32 [batch, context]."""
    generator = np.random.default_rng(seed)
    shape = (batch, config.context)
    tokens = generator.integers(0, config.vocabulary, shape, dtype=np.int32)
    return tokens, generator.integers(0, config.vocabulary, shape, dtype=np.int32)


def scheduled_rate(schedule: Schedule, step: int) -> float:
    """The learning rate of a step, the first being 1: linear rise, then half a cosine."""
    low = schedule.learning_rate * schedule.final_share
    if step <= schedule.warmup:
        return schedule.learning_rate * step / schedule.warmup
    done = (step - schedule.warmup) / (schedule.steps - schedule.warmup)
    return low + (schedule.learning_rate - low) * (1 + math.cos(math.pi * done)) / 2
