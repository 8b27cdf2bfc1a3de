"""One optimizer step as a plain callable that enqueues all of it: the body of the GraphStep."""

from __future__ import annotations

import numpy as np

from lowgraph import ops
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, Slice
from lowgraph.models import CharLM
from lowgraph.optim import AdamW
from lowgraph.stages import arm, stage
from lowgraph.train.ring import MappedRing

__all__ = ["TrainingStep"]


class TrainingStep:
    """Batch, forward, loss, backward, AdamW; nothing in it waits or needs the host.

    Its stages: batch, the model's, optimizer, and bookkeeping for control block and loss ring. Its
    arms: optimizer, and ring inside of bookkeeping.

    What changes from step to step is read from `control`, a block on the device that the step
    itself advances first; the batch is drawn by it from `text`, bytes on the device.
    optimizer: None leaves the update to somebody else, behind the step.
    """

    def __init__(
        self,
        *,
        model: CharLM,
        optimizer: AdamW | None,
        library: Library,
        pool: PersistentPool,
        text: Slice,
        control: Slice,
        ring: MappedRing,
        batch: int,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.batch = batch
        self._pool = pool
        self._text = text
        self._control = control
        self._ring = ring
        self._clock = ops.Control(library)
        self._gather = ops.BatchGather(library)
        self._record = ops.LossRing(library)

    def __call__(self, stream: int) -> None:
        """Enqueue the next step."""
        with stage("bookkeeping"):
            self._clock.advance(stream, self._control)
        with stage("batch"):
            tokens, targets = self._draw(stream)
        trace = self.model.forward(stream, tokens)
        loss = self.model.loss_and_gradient(stream, trace, targets)
        ring = self._ring
        with stage("bookkeeping"), arm("ring") as on:
            if on:
                self._record.write(stream, ring.device_address, loss, self._control, ring.slots)
        self.model.backward(stream, trace)
        if self.optimizer is not None:
            with arm("optimizer") as on:
                if on:
                    self.optimizer.step(stream, self._control)
        for piece in (tokens, targets, loss):
            self._pool.give_back(piece)

    def _draw(self, stream: int) -> tuple[Slice, Slice]:
        """Tokens and targets, int32 [B, T], of this step's random windows."""
        shape = (self.batch, self.model.config.context)
        tokens = self._pool.take("tokens", shape, np.int32)
        targets = self._pool.take("targets", shape, np.int32)
        self._gather.random(
            stream, tokens, targets, self._text, self._control, self._text.elements, *shape
        )
        return tokens, targets
