"""A model on the rig's device, fed by hand: one pass at a time, nothing drawn or scheduled."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowgraph import ops
from lowgraph.blas import Blas
from lowgraph.blas.routes import Chooser, choose
from lowgraph.driver import stream as driver_stream
from lowgraph.memory import PersistentPool, Slice, download, upload
from lowgraph.models import CharLM
from lowgraph.models.model import save_arena
from lowgraph.optim import AdamW, GradientNorm
from lowgraph.precision import Precision
from lowgraph.train.plan import Schedule
from tests.support.rig import Rig

__all__ = ["Bench"]

Array = npt.NDArray[Any]
Weights = dict[str, npt.NDArray[np.float32]]


class Bench:
    """Pool, GEMM, model and optimizer for one configuration."""

    def __init__(
        self,
        rig: Rig,
        config: Any,
        weights: Weights,
        model_class: Any = CharLM,
        precision: Precision = Precision.FP32,
        routes: Chooser = choose,
    ) -> None:
        self.rig = rig
        self.pool = PersistentPool(rig.device)
        self.blas = Blas(rig.device, rig.library, rig.stream, self.pool, routes=routes)
        self.model = model_class(
            config,
            library=rig.library,
            blas=self.blas,
            pool=self.pool,
            stream=rig.stream,
            precision=precision,
        )
        self.model.load_state(weights, rig.stream)
        self.optimizer = AdamW(
            rig.library,
            self.model.parameters,
            self.model.gradients,
            self.model.decayed_elements,
            rig.stream,
            shadow=self.model.shadow,
        )
        self.norm = GradientNorm(rig.library, self.pool, self.model.gradients.elements, rig.stream)
        self.clock = ops.Control(rig.library)

    def put(self, name: str, values: Array) -> Slice:
        piece = self.pool.take(name, values.shape, values.dtype)
        upload(piece, values, self.rig.stream)
        return piece

    def pass_over(self, tokens: Slice, targets: Slice) -> Slice:
        """Forward, loss and backward; the loss [1], still on the device."""
        trace = self.model.forward(self.rig.stream, tokens)
        loss = self.model.loss_and_gradient(self.rig.stream, trace, targets)
        self.model.backward(self.rig.stream, trace)
        return loss

    def gradients(self, tokens: Array, targets: Array) -> tuple[float, dict[str, Array]]:
        with self.pool.eager_pass("gradients"):
            loss = self.pass_over(self.put("tokens", tokens), self.put("targets", targets))
            value = float(download(loss, self.rig.stream)[0])
        found = save_arena(self.model.gradients, self.rig.stream)
        return value, {name: gradient.astype(np.float64) for name, gradient in found.items()}

    def train(self, batches: list[tuple[Array, Array]], schedule: Schedule) -> list[float]:
        """One AdamW step a batch; the losses."""
        control = self.put("control", schedule.control_block(0))
        losses = []
        for tokens, targets in batches:
            with self.pool.eager_pass("step"):
                self.clock.advance(self.rig.stream, control)
                loss = self.pass_over(self.put("tokens", tokens), self.put("targets", targets))
                self.norm.measure(self.rig.stream, self.model.gradients, control)
                self.optimizer.step(self.rig.stream, control, self.norm.stats)
                losses.append(float(download(loss, self.rig.stream)[0]))
        self.pool.give_back(control)
        return losses

    def close(self) -> None:
        driver_stream.synchronize(self.rig.stream)
        self.blas.close()
        self.pool.close()
