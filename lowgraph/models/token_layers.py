"""What the language models share above their blocks: the loss of a token."""

from __future__ import annotations

from lowgraph import ops
from lowgraph.blas import Blas
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool, Slice
from lowgraph.models.linear import Linear
from lowgraph.precision import Precision

__all__ = ["TokenLayers"]


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

    def _mean(self, stream: int, row_loss: Slice) -> Slice:
        loss = self._take("loss", 1)
        self._cross_entropy.mean(stream, loss, row_loss, row_loss.shape[0])
        self.drop(row_loss)
        return loss
