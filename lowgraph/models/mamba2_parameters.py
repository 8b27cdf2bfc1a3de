"""The parameters of the Mamba-2 models: names, shapes, order in the arenas, and initial values.

Names and layouts are those of the PyTorch modules that they equal: linear weights are [out, in],
the convolution's [channels, 1, taps].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lowgraph.models.mamba2_config import Mamba2Config, Mamba2LMConfig, MixerSizes
from lowgraph.specs import TensorSpec

__all__ = ["MixerNames", "block_name", "decayed_count", "initial_values", "parameter_specs"]

Array = npt.NDArray[np.float64]
Shape = tuple[int, ...]
Initial = Callable[[np.random.Generator, Shape], Array]
Config = Mamba2Config | Mamba2LMConfig


class MixerNames(NamedTuple):
    """Names of a block's parameters; in_proj, conv and out_proj without the ending ".weight"."""

    in_proj: str
    conv: str
    dt_bias: str
    a_log: str
    d: str
    norm: str
    out_proj: str

    @classmethod
    def perception(cls) -> MixerNames:
        """Those of the one block of a `mamba2`."""
        return cls("m.inp", "m.conv", "m.dtb", "m.Alog", "m.D", "m.nw", "m.out")

    @classmethod
    def layer(cls, block: str) -> MixerNames:
        """Those of a block of a `mamba2-lm`, as transformers names them."""
        mixer = f"{block}.mixer"
        return cls(
            f"{mixer}.in_proj", f"{mixer}.conv1d", f"{mixer}.dt_bias", f"{mixer}.A_log",
            f"{mixer}.D", f"{mixer}.norm.weight", f"{mixer}.out_proj",
        )  # fmt: skip


def block_name(layer: int) -> str:
    """The name of a block of a `mamba2-lm`, 0 the first."""
    return f"backbone.layers.{layer}"


def parameter_specs(config: Config) -> list[TensorSpec]:
    """All parameters, the decayed ones first: matrices, embeddings and the convolution's taps.

    Biases, norms, A_log, D and dt_bias follow. The order is the order in the flat arenas, so that
    weight decay is one bound on the index.
    """
    return [TensorSpec(tensor.name, tensor.shape) for tensor in _ordered(config)]


def decayed_count(config: Config) -> int:
    """How many of `parameter_specs`, from the front, take weight decay."""
    return sum(tensor.decays for tensor in _tensors(config))


def initial_values(config: Config, seed: int) -> dict[str, npt.NDArray[np.float32]]:
    """Initial parameters by name, float32, from a seeded NumPy generator (PCG64).

    Step sizes, softplus(dt_bias), are log-uniform in 0.001 to 0.1, D and the norms one (Gu, Dao
    2023; Dao, Gu 2024). A is -1, -2, ... by head in `mamba2` and uniform in -16 to -1 in
    `mamba2-lm`. Weights are PyTorch's uniform, 1 / sqrt(inputs) at most; the out-projections of
    `mamba2-lm` are smaller by sqrt(layers), so that the residual stream does not grow with depth.
    """
    generator = np.random.default_rng(seed)
    return {
        tensor.name: tensor.initial(generator, tensor.shape).astype(np.float32)
        for tensor in _ordered(config)
    }


# ---- initial values ----


def _uniform(inputs: int, divisor: float = 1.0) -> Initial:
    bound = 1 / (np.sqrt(inputs) * divisor)
    return lambda generator, shape: generator.uniform(-bound, bound, shape)


def _embedding(generator: np.random.Generator, shape: Shape) -> Array:
    return generator.normal(0.0, 0.02, shape)


def _ones(generator: np.random.Generator, shape: Shape) -> Array:
    return np.ones(shape)


def _step_bias(generator: np.random.Generator, shape: Shape) -> Array:
    """The inverse softplus of log-uniform step sizes: dt + log(1 - exp(-dt))."""
    dt = np.exp(generator.uniform(np.log(1e-3), np.log(1e-1), shape))
    return np.asarray(dt + np.log(-np.expm1(-dt)))


def _log_head(generator: np.random.Generator, shape: Shape) -> Array:
    return np.log(np.arange(1, shape[0] + 1))


def _log_uniform_16(generator: np.random.Generator, shape: Shape) -> Array:
    return np.log(generator.uniform(1.0, 16.0, shape))


# ---- tables ----


@dataclass(frozen=True)
class _Tensor:
    name: str
    shape: Shape
    initial: Initial

    @property
    def decays(self) -> bool:
        """Whether weight decay applies."""
        return len(self.shape) > 1


def _mixer(names: MixerNames, sizes: MixerSizes, a_log: Initial, divisor: float) -> list[_Tensor]:
    """A block's parameters. divisor: of the out-projection's initial values."""
    taps, head = _uniform(sizes.conv), (sizes.heads,)
    return [
        _Tensor(f"{names.in_proj}.weight", (sizes.projected, sizes.width), _uniform(sizes.width)),
        _Tensor(f"{names.conv}.weight", (sizes.convolved, 1, sizes.conv), taps),
        _Tensor(f"{names.conv}.bias", (sizes.convolved,), taps),
        _Tensor(names.dt_bias, head, _step_bias),
        _Tensor(names.a_log, head, a_log),
        _Tensor(names.d, head, _ones),
        _Tensor(names.norm, (sizes.inner,), _ones),
        _Tensor(
            f"{names.out_proj}.weight", (sizes.width, sizes.inner), _uniform(sizes.inner, divisor)
        ),
    ]


def _linear(name: str, outputs: int, inputs: int) -> list[_Tensor]:
    bound = _uniform(inputs)
    return [
        _Tensor(f"{name}.weight", (outputs, inputs), bound),
        _Tensor(f"{name}.bias", (outputs,), bound),
    ]


def _perception(config: Mamba2Config) -> list[_Tensor]:
    """The gate `g` and the candidate `k` of the loop are neighbours, one matrix [2 d, d]."""
    width = config.width
    return [
        *_linear("e", width, config.features),
        *_mixer(MixerNames.perception(), config.mixer, _log_head, 1.0),
        *_linear("g", width, width),
        *_linear("k", width, width),
        *_linear("o", 1, width),
    ]


def _language(config: Mamba2LMConfig) -> list[_Tensor]:
    width, vocabulary, divisor = config.width, config.vocabulary, float(np.sqrt(config.layers))
    found = [_Tensor("backbone.embeddings.weight", (vocabulary, width), _embedding)]
    for layer in range(config.layers):
        block = block_name(layer)
        found.append(_Tensor(f"{block}.norm.weight", (width,), _ones))
        found += _mixer(MixerNames.layer(block), config.mixer, _log_uniform_16, divisor)
    found.append(_Tensor("backbone.norm_f.weight", (width,), _ones))
    return [*found, _Tensor("lm_head.weight", (vocabulary, width), _uniform(width))]


def _tensors(config: Config) -> list[_Tensor]:
    return _perception(config) if isinstance(config, Mamba2Config) else _language(config)


def _ordered(config: Config) -> list[_Tensor]:
    return sorted(_tensors(config), key=lambda tensor: not tensor.decays)  # stable
