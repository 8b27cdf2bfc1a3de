"""What the language models share above their blocks: the loss, and the embedding's gradient.

Logits of many rows and classes are the largest tensor of a step. They need not be there at once:
each row's loss and gradient want its own logits only. So the head and the loss can go by chunks of
rows: a chunk's logits, their gradient in place, and both products with that, before the next.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lowgraph import ops
from lowgraph.blas import Blas
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool, Slice
from lowgraph.models.linear import Linear
from lowgraph.precision import Precision

__all__ = ["EmbeddingLayers", "TokenLayers", "rows_at_once"]

# GPT-2's 8 192 rows of 50 304 classes: four chunks, 197 MB of bfloat16 for 786. Each chunk but the
# first reads the weight's gradient, and adds to it, which is the price.
_MOST = 1 << 27
_UNIT = 256  # rows: whole tiles of the products, and of everything else


def rows_at_once(rows: int, classes: int) -> int:
    """Rows of logits to make at one time: all, up to 2^27 numbers; else equal parts below that."""
    parts = -(-rows * classes // _MOST)
    return rows if parts <= 1 else min(rows, -(-rows // (parts * _UNIT)) * _UNIT)


class TokenLayers(Linear):
    """Linear layers, and cross-entropy of logits [rows, V] against int32 targets [B, T].

    Logits and their gradient are of the operand type.
    """

    def __init__(
        self,
        library: Library,
        blas: Blas,
        pool: PersistentPool,
        parameters: Arena,
        gradients: Arena,
        weights: Arena | None = None,
        precision: Precision = Precision.FP32,
    ) -> None:
        super().__init__(library, blas, pool, parameters, gradients, weights, precision)
        self._cross_entropy = ops.CrossEntropy(library, precision)

    def loss(self, stream: int, logits: Slice, targets: Slice) -> Slice:
        """Mean cross-entropy [1], in nats, of logits [rows, V] and targets [B, T]."""
        rows, classes = logits.shape
        row_loss = self._take("row_loss", rows)
        self._cross_entropy.forward(stream, row_loss, logits, targets, rows, classes)
        return self._mean(stream, row_loss)

    def loss_and_gradient(self, stream: int, logits: Slice, targets: Slice) -> Slice:
        """As `loss`; logits become the gradient of the mean by the logits, in place."""
        rows, classes = logits.shape
        row_loss = self._take("row_loss", rows)
        self._cross_entropy.forward_backward(
            stream, row_loss, logits, targets, rows, classes, 1 / rows
        )
        return self._mean(stream, row_loss)

    def loss_by_chunks(self, stream: int, name: str, x: Slice, targets: Slice, chunk: int) -> Slice:
        """As `loss` of the logits of layer `name`, which has no bias, from x [rows, channels].

        chunk: rows at one time.
        """
        rows = x.shape[0]
        row_loss = self._take("row_loss", rows)
        for first, part in _chunks(x, chunk):
            logits = self.project(stream, name, part)
            read = logits, targets.part(first, part.shape[:1])
            into = row_loss.part(first, part.shape[:1])
            self._cross_entropy.forward(stream, into, *read, *logits.shape)
            self.drop(logits)
        return self._mean(stream, row_loss)

    def loss_and_gradient_by_chunks(
        self, stream: int, name: str, x: Slice, targets: Slice, chunk: int
    ) -> tuple[Slice, Slice]:
        """As `loss_by_chunks`, and the gradient of x, a new slice; the weight's is overwritten.

        The weight's gradient is summed over the chunks in their order, in float32.
        """
        rows = x.shape[0]
        weight, dweight = self._weights[f"{name}.weight"], self._gradients[f"{name}.weight"]
        row_loss, dx = self._take("row_loss", rows), self._take_operand(f"{name}.dx", *x.shape)
        for first, part in _chunks(x, chunk):
            logits = self.project(stream, name, part)
            (count, classes), channels = logits.shape, x.shape[1]
            into, read = row_loss.part(first, (count,)), targets.part(first, (count,))
            self._cross_entropy.forward_backward(
                stream, into, logits, read, count, classes, 1 / rows
            )
            dpart = dx.part(first * channels, part.shape)
            self._blas.gemm(
                stream, dpart, logits, weight, count, channels, classes, precision=self._precision
            )
            self._blas.gemm(
                stream, dweight, logits, part, classes, channels, count,
                trans_a=True, accumulate=first > 0, precision=self._precision,
            )  # fmt: skip
            self.drop(logits)
        return self._mean(stream, row_loss), dx

    def _mean(self, stream: int, row_loss: Slice) -> Slice:
        loss = self._take("loss", 1)
        self._cross_entropy.mean(stream, loss, row_loss, row_loss.shape[0])
        self.drop(row_loss)
        return loss


class EmbeddingLayers(TokenLayers):
    """Those, and the backward pass of an embedding, which the class that has it makes."""

    _embedding: ops.Embedding

    def token_order(self, stream: int, tokens: Slice) -> Slice:
        """The places of tokens [B, T] in the order of the tokens: what `_sum_rows` goes by."""
        batch, length = tokens.shape
        order = self._pool.take("order", self._embedding.order_shape(batch, length), np.int32)
        self._embedding.sort_places(stream, order, tokens, batch * length)
        return order

    def _sum_rows(
        self,
        stream: int,
        tables: tuple[Slice, Slice | None],
        order: Slice,
        tokens: Slice,
        dx: Slice,
    ) -> None:
        """Gradients of the tokens' table and the positions', if there is one, from dx [rows, d]."""
        sizes = *tokens.shape, dx.shape[1]
        begin = self._pool.take("begin", self._embedding.begin_shape(), np.int32)
        partial = self._pool.take("partial", self._embedding.partial_shape(*sizes))
        self._embedding.sum_places(stream, *tables, order, begin, partial, dx, *sizes)
        self.drop(begin, partial)


def _chunks(x: Slice, chunk: int) -> Iterator[tuple[int, Slice]]:
    """First row and rows of each part of x [rows, channels]."""
    rows, channels = x.shape
    for first in range(0, rows, chunk):
        yield first, x.part(first * channels, (min(chunk, rows - first), channels))
