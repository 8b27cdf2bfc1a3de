"""Forward passes outside the step: the held-out loss, and logits to sample from.

They run eagerly on the step's stream, between steps, with slices of the same pool; a recorded graph
keeps its own slices and stays valid.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lowgraph import ops
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, Slice, download, upload
from lowgraph.models import CharLM
from lowgraph.train.data import heldout_plan

__all__ = ["Inference"]


class Inference:
    """Reads `model`'s present parameters. heldout: bytes on the device, longer than one window."""

    def __init__(
        self,
        model: CharLM,
        library: Library,
        pool: PersistentPool,
        heldout: Slice,
        stream: int,
    ) -> None:
        self._model = model
        self._pool = pool
        self._heldout = heldout
        self._stream = stream
        self._gather = ops.BatchGather(library)

    def heldout_loss(self, batch: int, batches: int) -> float:
        """Mean loss, nats a byte, of the fixed held-out windows (`heldout_plan`). Waits for it."""
        context, nbytes = self._model.config.context, self._heldout.elements
        windows, starts = heldout_plan(nbytes, context, batch, batches)
        return float(np.mean([self._loss_at(start, windows) for start in starts]))

    def next_logits(self, tokens: npt.NDArray[np.int32], position: int) -> npt.NDArray[np.float32]:
        """Logits [V] after tokens[position] in a window of T tokens. Waits for them."""
        config = self._model.config
        with self._pool.eager_pass("sample"):
            window = self._pool.take("tokens", (1, config.context), np.int32)
            upload(window, tokens.reshape(1, -1), self._stream)
            logits = self._model.forward(self._stream, window).logits
            first = position * config.vocabulary
            return download(logits.part(first, (config.vocabulary,)), self._stream)

    def _loss_at(self, first: int, windows: int) -> float:
        shape = (windows, self._model.config.context)
        with self._pool.eager_pass("held-out loss"):
            tokens = self._pool.take("tokens", shape, np.int32)
            targets = self._pool.take("targets", shape, np.int32)
            nbytes = self._heldout.elements
            self._gather.windows(
                self._stream, tokens, targets, self._heldout, first, nbytes, *shape
            )
            trace = self._model.forward(self._stream, tokens)
            loss = self._model.loss(self._stream, trace, targets)
            return float(download(loss, self._stream)[0])
