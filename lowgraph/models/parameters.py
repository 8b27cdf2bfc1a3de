"""The parameters of a `charlm`: names, shapes, order in the arenas, and their initial values.

Names and layouts are those of the PyTorch module it equals: linear weights are [out, in], `e` and
`p` are the token and position embeddings, `b.<i>` the blocks, `n` the last norm, `hd` the head.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from lowgraph.models.presets import CharLMConfig
from lowgraph.specs import TensorSpec

__all__ = ["decayed_count", "initial_values", "parameter_specs"]

Array = npt.NDArray[np.float32]

# Initial deviation of weights and embeddings: GAIN / sqrt(width), 0.08 for width 64. Searched with
# nano at 1 000 steps: 0.02 ends 0.35 nat above 0.08, and 0.06 to 0.1 lie within 0.05 of each other.
GAIN = 0.64


def parameter_specs(config: CharLMConfig) -> list[TensorSpec]:
    """All parameters, the decayed ones (weights and embeddings) first, then biases and norms.

    The order is the order in the flat arenas, so that weight decay is one bound on the index.
    """
    specs = _matrices(config) + _vectors(config)
    return [TensorSpec(name, shape) for name, shape in specs]


def decayed_count(config: CharLMConfig) -> int:
    """How many of `parameter_specs`, from the front, take weight decay."""
    return len(_matrices(config))


def initial_values(config: CharLMConfig, seed: int) -> dict[str, Array]:
    """Initial parameters by name, float32, from a seeded NumPy generator (PCG64).

    Norm weights are one, all biases zero. Matrices are normal with deviation GAIN / sqrt(width);
    the two projections of a block that add to the residual stream (`o` and `f2`) are smaller by
    sqrt(2 layers), so that the stream's variance does not grow with depth (GPT-2, section 2.3).
    """
    generator = np.random.default_rng(seed)
    deviation = GAIN / math.sqrt(config.width)
    residual = deviation / math.sqrt(2 * config.layers)
    values: dict[str, Array] = {}
    for name, shape in _matrices(config):
        scale = residual if name.endswith((".o.weight", ".f2.weight")) else deviation
        values[name] = (generator.standard_normal(shape) * scale).astype(np.float32)
    for name, shape in _vectors(config):
        value = 0.0 if name.endswith("bias") else 1.0
        values[name] = np.full(shape, value, dtype=np.float32)
    return values


def _matrices(config: CharLMConfig) -> list[tuple[str, tuple[int, ...]]]:
    """Names and shapes of what takes weight decay."""
    width, vocabulary = config.width, config.vocabulary
    found: list[tuple[str, tuple[int, ...]]] = [
        ("e.weight", (vocabulary, width)),
        ("p.weight", (config.context, width)),
    ]
    for layer in range(config.layers):
        found += [
            (f"b.{layer}.qkv.weight", (3 * width, width)),
            (f"b.{layer}.o.weight", (width, width)),
            (f"b.{layer}.f1.weight", (4 * width, width)),
            (f"b.{layer}.f2.weight", (width, 4 * width)),
        ]
    return [*found, ("hd.weight", (vocabulary, width))]


def _vectors(config: CharLMConfig) -> list[tuple[str, tuple[int, ...]]]:
    """Names and shapes of the biases and the norms, which do not decay."""
    width = config.width
    found: list[tuple[str, tuple[int, ...]]] = []
    for layer in range(config.layers):
        found += [
            (f"b.{layer}.l1.weight", (width,)),
            (f"b.{layer}.l1.bias", (width,)),
            (f"b.{layer}.qkv.bias", (3 * width,)),
            (f"b.{layer}.o.bias", (width,)),
            (f"b.{layer}.l2.weight", (width,)),
            (f"b.{layer}.l2.bias", (width,)),
            (f"b.{layer}.f1.bias", (4 * width,)),
            (f"b.{layer}.f2.bias", (width,)),
        ]
    return [*found, ("n.weight", (width,)), ("n.bias", (width,))]
