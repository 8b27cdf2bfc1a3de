"""Logits to sample from: eager forward passes between the steps, on their stream.

The slices are of the same pool; a recorded graph keeps its own and stays valid.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lowgraph.memory import PersistentPool, download, upload
from lowgraph.models.protocol import TrainableModel
from lowgraph.precision import BFLOAT16, bfloat16_values

__all__ = ["Inference"]


class Inference:
    """Reads the present parameters of `model`, one of text."""

    def __init__(self, model: TrainableModel, pool: PersistentPool, stream: int) -> None:
        self._model = model
        self._pool = pool
        self._stream = stream

    def next_logits(self, tokens: npt.NDArray[np.int32], position: int) -> npt.NDArray[np.float32]:
        """Logits of the bytes after tokens[position] in a window of T tokens. Waits for them.

        [256], or [V] of a smaller vocabulary: a larger one's other tokens stand for nothing here.
        """
        config = self._model.config
        with self._pool.eager_pass("sample"):
            window = self._pool.take("tokens", (1, config.context), np.int32)
            upload(window, tokens.reshape(1, -1), self._stream)
            logits = self._model.forward(self._stream, window).logits
            first = position * config.vocabulary
            found = download(logits.part(first, (min(config.vocabulary, 256),)), self._stream)
        return bfloat16_values(found) if found.dtype == BFLOAT16 else found
