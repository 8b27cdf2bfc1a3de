"""mlp: says which class a row of features is of; forward and backward written out.

    h = x;  L times h = relu(l.i(h));  logits = o(h)

and the mean cross-entropy of the logits. With BF16 h, the logits and the gradients of both are
bfloat16; the gradients of parameters and all sums are float32. Shapes: B rows of F features, width
d, C classes. Batches come as the other models' do, windows of T = 1 row. The trace is kept and
given back as in charlm.py.

Stages: forward, loss, backward; in the first and the last hidden and head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from lowgraph import ops
from lowgraph.blas import Blas
from lowgraph.errors import ConfigError
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool, Slice
from lowgraph.models.linear import Flow
from lowgraph.models.logits import HoldsLogits
from lowgraph.models.model import Model
from lowgraph.models.presets import Preset
from lowgraph.models.token_layers import TokenLayers
from lowgraph.precision import Precision
from lowgraph.specs import TensorSpec
from lowgraph.stages import stage

__all__ = ["PRESETS", "Mlp", "MlpConfig", "MlpTrace", "initial_values", "parameter_specs"]

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class MlpConfig:
    """Shape of an `mlp`.

    Attributes
    ----------
    features: F, inputs of a row. width: d, channels of a hidden layer. layers: L, hidden layers.
    classes: C.

    Raises ConfigError when a size is below 1.
    """

    features: int
    width: int
    layers: int
    classes: int

    def __post_init__(self) -> None:
        for field in fields(self):
            size = getattr(self, field.name)
            if size < 1:
                raise ConfigError(f"model: {field.name} must be at least 1, got {size}")

    @property
    def context(self) -> int:
        """1: rows are independent of each other."""
        return 1


@dataclass
class MlpTrace(HoldsLogits):
    """What backward reads: the input x [B, F], and hidden[i] [B, d], which layer i gave.

    logits [B, C] hold their own gradient after `loss_and_gradient`.
    """

    x: Flow
    hidden: tuple[Slice, ...]
    logits: Slice


class Mlp(Model):
    """A model on a device; calls enqueue and return, and allocate from the pool alone.

    config: its shape. precision: of its products; with BF16 it has a `shadow`. arenas: parameters
    and gradients that are somebody else's (`Model`).
    """

    def __init__(
        self,
        config: MlpConfig,
        *,
        library: Library,
        blas: Blas,
        pool: PersistentPool,
        stream: int,
        precision: Precision = Precision.FP32,
        arenas: tuple[Arena, Arena] | None = None,
    ) -> None:
        cast = ops.Cast(library) if precision is Precision.BF16 else None
        super().__init__(parameter_specs(config), config.layers + 1, pool, stream, cast, arenas)
        self.config = config
        self.precision = precision
        own = self.parameters, self.gradients, self.shadow
        self._layers = TokenLayers(library, blas, pool, *own, precision)
        self._names = tuple(f"l.{layer}" for layer in range(config.layers))

    def forward(self, stream: int, inputs: Slice) -> MlpTrace:
        """Logits of inputs, float32 [B, 1, F], and what backward reads."""
        layers = self._layers
        rows = inputs.part(0, (inputs.shape[0], self.config.features))
        with stage("forward"):
            with stage("hidden"):
                x = layers.flow(stream, "x", rows)
                h, hidden = x.operand, []
                for name in self._names:
                    h = layers.linear_relu(stream, name, h)
                    hidden.append(h)
            with stage("head"):
                logits = layers.linear(stream, "o", h)
        return MlpTrace(x, tuple(hidden), logits)

    def loss(self, stream: int, trace: MlpTrace, targets: Slice) -> Slice:
        """Mean cross-entropy in nats, [1], of targets, int32 [B, 1]; backward cannot follow."""
        with stage("loss"):
            trace.read_logits()
            return self._layers.loss(stream, trace.logits, targets)

    def loss_and_gradient(self, stream: int, trace: MlpTrace, targets: Slice) -> Slice:
        """As `loss`, and turns the trace's logits into their gradient, where backward starts.

        Raises ConfigError for logits that are their gradient already, as `loss` does then.
        """
        with stage("loss"):
            trace.turn_logits()
            return self._layers.loss_and_gradient(stream, trace.logits, targets)

    def backward(self, stream: int, trace: MlpTrace) -> None:
        """Overwrite every gradient; gives the trace's slices back. After `loss_and_gradient`."""
        trace.read_gradient()
        layers, hidden = self._layers, trace.hidden
        with stage("backward"):
            with stage("head"):
                dh = layers.linear_backward(stream, "o", trace.logits, hidden[-1])
                layers.drop(trace.logits)
            with stage("hidden"):
                for place in range(len(hidden) - 1, 0, -1):
                    read = dh, hidden[place - 1], hidden[place]
                    dx = layers.linear_relu_backward(stream, self._names[place], *read)
                    layers.drop(dh, hidden[place])
                    dh = dx
                read = dh, trace.x.operand, hidden[0]
                layers.linear_relu_gradients(stream, self._names[0], *read)
                layers.drop(dh, hidden[0], *trace.x.copies)


def parameter_specs(config: MlpConfig) -> list[TensorSpec]:
    """All parameters, the weights, which decay, first; linear weights are [out, in]."""
    names = [*(f"l.{layer}" for layer in range(config.layers)), "o"]
    widths = [config.features, *[config.width] * config.layers]
    outputs = [*widths[1:], config.classes]
    weights = [TensorSpec(f"{name}.weight", (out, into))
               for name, out, into in zip(names, outputs, widths, strict=True)]  # fmt: skip
    return weights + [
        TensorSpec(f"{name}.bias", (out,)) for name, out in zip(names, outputs, strict=True)
    ]


def initial_values(config: MlpConfig, seed: int) -> dict[str, Array]:
    """Initial parameters by name, float32, from a seeded NumPy generator (PCG64).

    Weights are normal with deviation sqrt(2 / inputs), which keeps the variance through ReLU layers
    (He et al. 2015, equation 10); biases zero.
    """
    generator = np.random.default_rng(seed)
    values = {}
    for spec in parameter_specs(config):
        if spec.name.endswith("bias"):
            values[spec.name] = np.zeros(spec.shape, np.float32)
        else:
            drawn = generator.standard_normal(spec.shape) * math.sqrt(2 / spec.shape[1])
            values[spec.name] = drawn.astype(np.float32)
    return values


PRESETS = {
    "nano": Preset(MlpConfig(16, 32, 2, 4), batch=16, steps=200, learning_rate=0.05),
    "bench": Preset(MlpConfig(256, 256, 8, 10), batch=128, steps=500, learning_rate=0.01),
}
