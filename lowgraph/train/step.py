"""One optimizer step as a plain callable that enqueues all of it: the body of the GraphStep."""

from __future__ import annotations

from lowgraph import ops
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, Slice
from lowgraph.models.protocol import TrainableModel
from lowgraph.optim import AdamW, GradientNorm
from lowgraph.stages import arm, stage
from lowgraph.train.feed import Feed
from lowgraph.train.ring import MappedRing

__all__ = ["TrainingStep"]


class TrainingStep:
    """Batch, forward, loss, backward, gradient norm, AdamW; nothing in it waits or needs the host.

    Its stages: batch, the model's, optimizer, and bookkeeping for control block and loss ring. Its
    arms: optimizer (the update; not the norm, which others read), and ring inside of bookkeeping.

    What changes from step to step is read from `control`, a block on the device that the step
    itself advances first; `feed` draws the batch by its number.
    optimizer: None leaves the update to somebody else, behind the step.
    """

    def __init__(
        self,
        *,
        model: TrainableModel,
        optimizer: AdamW | None,
        norm: GradientNorm,
        library: Library,
        pool: PersistentPool,
        feed: Feed,
        control: Slice,
        ring: MappedRing,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.norm = norm
        self._pool = pool
        self._feed = feed
        self._control = control
        self._ring = ring
        self._clock = ops.Control(library)
        self._record = ops.LossRing(library)

    def __call__(self, stream: int) -> None:
        """Enqueue the next step."""
        with stage("bookkeeping"):
            self._clock.advance(stream, self._control)
        with stage("batch"):
            batch = self._feed.draw(stream)
        trace = self.model.forward(stream, batch.inputs)
        loss = self.model.loss_and_gradient(stream, trace, batch.targets)
        self.model.backward(stream, trace)
        ring, stats = self._ring, self.norm.stats
        with stage("optimizer"):
            self.norm.measure(stream, self.model.gradients, self._control)
        with stage("bookkeeping"), arm("ring") as on:
            if on:
                where = ring.device_address
                self._record.write(stream, where, loss, stats, self._control, ring.slots)
        if self.optimizer is not None:
            with arm("optimizer") as on:
                if on:
                    self.optimizer.step(stream, self._control, stats)
        for piece in (*batch.held, loss):
            self._pool.give_back(piece)
