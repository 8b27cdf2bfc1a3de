"""Evaluation: the held-out loss, batch by batch with a captured graph of its own.

Which batch it is lies on the device, so that every batch of every evaluation is one replay of one
graph. The graph of the training step is not touched: it keeps its own slices and stays valid.

The host runs a fraction of a second ahead of the device, as in training: a wait for all batches,
which may be minutes, could not be interrupted, and nor could the wait for the device at the close.
"""

from __future__ import annotations

import numpy as np

from lowgraph import ops
from lowgraph.capture import GraphStep
from lowgraph.driver import Device
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, Slice, download, fill_zero
from lowgraph.models.protocol import TrainableModel
from lowgraph.stages import stage
from lowgraph.train.feed import Feed
from lowgraph.train.lead import Lead

__all__ = ["Evaluation"]


class Evaluation:
    """Reads `model`'s present parameters on the step's stream, between steps.

    name: of its graph. feed: numbers its batches from 0 by `cursor`, int64 [1]. batches: of an
    evaluation.
    graph: False launches every kernel of every batch.

    Attributes
    ----------
    graph_step: one batch.
    """

    def __init__(
        self,
        name: str,
        model: TrainableModel,
        feed: Feed,
        cursor: Slice,
        batches: int,
        *,
        device: Device,
        library: Library,
        pool: PersistentPool,
        stream: int,
        graph: bool,
        why_off: str,
    ) -> None:
        self._model = model
        self._feed = feed
        self._cursor = cursor
        self._losses = pool.take(f"{name}: losses", batches)
        self._stream = stream
        self._record = ops.EvaluationRecord(library)
        self._lead = Lead(stream)
        self.graph_step = GraphStep(
            self._batch,
            device=device,
            pool=pool,
            library=library,
            stream=stream,
            label=name,
            graph=graph,
            why_off=why_off,
        )

    def loss(self) -> float:
        """Mean loss, in nats, of all batches. Waits for it."""
        fill_zero(self._cursor, self._stream)
        self._lead.begin()
        for number in range(self._losses.elements):
            self._feed.stage(number)
            self.graph_step()
            self._feed.mark(number)
            self._lead.issued()
        return float(np.mean(download(self._losses, self._stream), dtype=np.float64))

    def close(self) -> None:
        """Destroy the graph and the marks. Idempotent."""
        self.graph_step.close()
        self._lead.close()

    def _batch(self, stream: int) -> None:
        with stage("batch"):
            batch = self._feed.draw(stream)
        loss = self._model.evaluate(stream, batch.inputs, batch.targets)
        with stage("bookkeeping"):
            slots = self._losses.elements
            self._record.write(stream, self._losses, self._cursor, loss, slots)
