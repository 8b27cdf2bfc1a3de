"""One optimizer step as a plain callable that enqueues all of it: the body of the GraphStep."""

from __future__ import annotations

from lowgraph import ops
from lowgraph.blas import SideStreams
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool, Slice
from lowgraph.models.protocol import TrainableModel
from lowgraph.optim import Accumulation, GradientNorm, Optimizer
from lowgraph.stages import arm, stage
from lowgraph.train.feed import Batch, Feed
from lowgraph.train.ring import MappedRing

__all__ = ["TrainingStep"]


class TrainingStep:
    """Batch, its passes, gradient norm, update; nothing in it waits or needs the host.

    Its stages: batch, the model's, optimizer, and bookkeeping for control block and loss ring. Its
    arms: optimizer (the update; not the norm, which others read), and ring inside of bookkeeping.

    What changes from step to step is read from `control`, a block on the device that the step
    itself advances; `feed` draws the batch by the number that it then has, and fetches the next.
    optimizer: None leaves the update to somebody else, behind the step.
    sides: on the first of these the feed fetches and the block advances, which norm and update are
    the first to read, and the record goes to the host: its fences take as long as a launch or two,
    and the update beside it does not wait for them.
    total: None is a step of one pass over the batch; else the batch is cut into its micro-batches,
    and what they add up to there is what norm and optimizer read.
    """

    def __init__(
        self,
        *,
        model: TrainableModel,
        optimizer: Optimizer | None,
        total: Accumulation | None,
        norm: GradientNorm,
        library: Library,
        pool: PersistentPool,
        feed: Feed,
        control: Slice,
        ring: MappedRing,
        sides: SideStreams,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.total = total
        self.norm = norm
        self._pool = pool
        self._feed = feed
        self._control = control
        self._ring = ring
        self._sides = sides
        sides.make(1)
        self._clock = ops.Control(library)
        self._record = ops.LossRing(library)

    @property
    def gradients(self) -> Arena:
        """The step's gradients, which norm and optimizer read."""
        return self.model.gradients if self.total is None else self.total.gradients

    def __call__(self, stream: int) -> None:
        """Enqueue the next step."""
        with stage("batch"):
            batch = self._feed.draw(stream)
        loss, held = self._passes(stream, batch)
        self._sides.join(stream, 0)
        ring, stats = self._ring, self.norm.stats
        with stage("optimizer"):
            self.norm.measure(stream, self.gradients, self._control)
        with stage("bookkeeping"), arm("ring") as recorded:
            if recorded:
                side, where = self._sides.fork(stream, 0), ring.device_address
                self._record.write(side, where, loss, stats, self._control, ring.slots)
        if self.optimizer is not None:
            with arm("optimizer") as on:
                if on:
                    self.optimizer.step(stream, self._control, stats)
        if recorded:
            self._sides.join(stream, 0)
        for piece in held:
            self._pool.give_back(piece)

    def _passes(self, stream: int, batch: Batch) -> tuple[Slice, tuple[Slice, ...]]:
        """The step's loss, [1], and what to give back when it is read."""
        total = self.total
        if total is None:
            loss = self._pass(stream, batch, leads=True)
            return loss, (*batch.held, loss)
        for index in range(total.micro_batches):
            part = batch.part(index, total.micro_batches)
            loss = self._pass(stream, part, leads=index == 0)
            with stage("optimizer"):
                total.add(stream, self.model.gradients, loss, index)
            self._pool.give_back(loss)
        return total.loss, batch.held

    def _pass(self, stream: int, batch: Batch, leads: bool) -> Slice:
        """Forward and backward of a batch; its loss, [1], the caller's to give back.

        leads: what is to come beside the chain begins here.
        """
        trace = self.model.forward(stream, batch.inputs)
        loss = self.model.loss_and_gradient(stream, trace, batch.targets)
        if leads:
            self._prepare_next(stream)
        self.model.backward(stream, trace)
        return loss

    def _prepare_next(self, stream: int) -> None:
        """Fetch the next batch and advance the control block, beside the chain.

        Not right behind the first launch: a graph's second stream gets its work some 5 to 10 us
        after the first, and the chain went on there.
        """
        side = self._sides.fork(stream, 0)
        with stage("batch"):
            self._feed.fetch(side)
        with stage("bookkeeping"):
            # Behind draw and fetch, which read the number that this changes.
            self._clock.advance(side, self._control)
