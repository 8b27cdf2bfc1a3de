"""`linear`: the smallest model of a series, logistic regression, and its registry entry.

It stands for every model of that kind where a test asks how the trainer treats one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowgraph import ops
from lowgraph.blas import Blas
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool, Slice
from lowgraph.models.model import Model
from lowgraph.models.presets import Preset
from lowgraph.models.registry import ModelEntry
from lowgraph.precision import Precision
from lowgraph.specs import TensorSpec
from lowgraph.stages import stage
from lowgraph.train.plan import Plan, Schedule
from lowgraph.train.series import Rows, Series

__all__ = ["LINEAR", "LinearConfig", "linear_plan", "separable_series"]


@dataclass(frozen=True)
class LinearConfig:
    """context: T. features: F."""

    context: int
    features: int


class Trace(NamedTuple):
    """inputs [B, T, F]; logits [B * T, 1], which become their gradient."""

    inputs: Slice
    logits: Slice


class Linear(Model):
    """weight [1, F], bias [1]; the loss is the mean binary cross-entropy of x weight^T + bias."""

    def __init__(
        self,
        config: LinearConfig,
        *,
        library: Library,
        blas: Blas,
        pool: PersistentPool,
        stream: int,
        precision: Precision,
        arenas: tuple[Arena, Arena] | None = None,
    ) -> None:
        assert precision is Precision.FP32, "this one knows float32 alone"
        super().__init__(specs(config), 1, pool, stream, arenas=arenas)
        self.config = config
        self._blas = blas
        self._pool = pool
        self._bias = ops.Bias(library)
        self._bce = ops.BinaryCrossEntropy(library)

    def forward(self, stream: int, inputs: Slice) -> Trace:
        rows, features = inputs.shape[0] * inputs.shape[1], inputs.shape[2]
        with stage("forward"):
            logits = self._pool.take("logits", (rows, 1))
            weight = self.parameters["weight"]
            self._blas.gemm(stream, logits, inputs, weight, rows, 1, features, trans_b=True)
            self._bias.forward(stream, logits, self.parameters["bias"], rows, 1)
        return Trace(inputs, logits)

    def loss(self, stream: int, trace: Trace, targets: Slice, dlogits: Slice | int = 0) -> Slice:
        rows = trace.logits.elements
        loss = self._pool.take("loss", 1)
        partial = self._pool.take("partial", self._bce.partial_shape(rows))
        tensors = (loss, partial, trace.logits, targets)
        with stage("loss"):
            self._bce.forward(stream, *tensors, rows, dlogits=dlogits, scale=1 / rows)
        self._pool.give_back(partial)
        return loss

    def loss_and_gradient(self, stream: int, trace: Trace, targets: Slice) -> Slice:
        return self.loss(stream, trace, targets, dlogits=trace.logits)

    def backward(self, stream: int, trace: Trace) -> None:
        rows, features = trace.logits.elements, self.config.features
        with stage("backward"):
            partial = self._pool.take("partial", self._bias.partial_shape(rows, 1))
            self._bias.backward(stream, self.gradients["bias"], partial, trace.logits, rows, 1)
            self._blas.gemm(
                stream, self.gradients["weight"], trace.logits, trace.inputs, 1, features, rows,
                trans_a=True,
            )  # fmt: skip
        for piece in (partial, trace.logits):
            self._pool.give_back(piece)


def specs(config: LinearConfig) -> list[TensorSpec]:
    return [TensorSpec("weight", (1, config.features)), TensorSpec("bias", (1,))]


def initial_values(config: LinearConfig, seed: int) -> dict[str, npt.NDArray[np.float32]]:
    weight = np.random.default_rng(seed).normal(size=(1, config.features))
    return {"weight": weight.astype(np.float32), "bias": np.full(1, 0.5, np.float32)}


LINEAR = ModelEntry(
    config=LinearConfig,
    build=Linear,
    presets={"five": Preset(LinearConfig(7, 5), batch=3, steps=20, learning_rate=0.1)},
    default_presets={"host": "five", "cuda": "five"},
    specs=specs,
    initial_values=initial_values,
    data="series",
    about="logistic regression",
)


def linear_plan(**changes: Any) -> Plan:
    """A plan of 12 steps; `changes` are fields of its schedule."""
    schedule = {"steps": 12, "warmup": 2, "learning_rate": 0.05, "batch": 3, "seed": 5, **changes}
    return Plan("linear", "five", LinearConfig(7, 5), Schedule(**schedule), log_every=4)


def separable_series(rows: int = 400, features: int = 5, seed: int = 1) -> Series:
    """Normal features; the label is the sign of the first two's sum."""
    x = np.random.default_rng(seed).normal(size=(rows, features)).astype(np.float32)
    y = (x[:, 0] + x[:, 1] > 0).astype(np.float32)
    cut = rows * 9 // 10
    parts = Rows(x[:cut], y[:cut]), Rows(x[cut:], y[cut:])
    return Series("made", "normal numbers", f"{seed:064x}", *parts)
