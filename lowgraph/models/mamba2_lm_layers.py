"""What a `mamba2-lm` has beside its blocks, as calls: the embedding and the norms."""

from __future__ import annotations

from typing import NamedTuple

from lowgraph import ops
from lowgraph.blas import Blas
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool, Slice
from lowgraph.models.branches import Branches
from lowgraph.models.linear import Flow
from lowgraph.models.mamba2_config import Mamba2LMConfig
from lowgraph.models.token_layers import EmbeddingLayers
from lowgraph.precision import Precision

__all__ = ["LMLayers", "StreamNorm"]


class StreamNorm(NamedTuple):
    """A norm's output y [rows, d], what it normed, x, and the factor rstd [rows] it used."""

    y: Slice
    x: Slice
    rstd: Slice


class LMLayers(EmbeddingLayers):
    """Linear layers, cross-entropy, embedding, and root-mean-square norms of the stream.

    The stream, what joins it and its gradient are float32; norms' outputs are of the operand type.
    """

    def __init__(
        self,
        config: Mamba2LMConfig,
        library: Library,
        blas: Blas,
        pool: PersistentPool,
        parameters: Arena,
        gradients: Arena,
        weights: Arena | None = None,
        precision: Precision = Precision.FP32,
    ) -> None:
        super().__init__(library, blas, pool, parameters, gradients, weights, precision)
        self._width = config.width
        self._embedding = ops.Embedding(library, config.vocabulary)
        self._norm = ops.RmsNorm(library, precision=precision)

    def embed(self, stream: int, name: str, tokens: Slice) -> Slice:
        """Rows of the table for tokens [B, T]: [rows, d]."""
        batch, length = tokens.shape
        x = self._take("x", batch * length, self._width)
        table = self._parameters[f"{name}.weight"]
        self._embedding.forward(stream, x, tokens, table, None, batch, length, self._width)
        return x

    def embed_backward(
        self, stream: int, name: str, dx: Slice, order: Slice, tokens: Slice
    ) -> None:
        """Gradient of the table from dx [rows, d]; rows of tokens that do not occur are zero."""
        tables = self._gradients[f"{name}.weight"], None
        self._sum_rows(stream, tables, order, tokens, dx)

    def norm(self, stream: int, name: str, x: Slice) -> StreamNorm:
        """Norm of x over its channels."""
        rows, width = x.shape
        y, rstd = self._take_operand(f"{name}.y", rows, width), self._take(f"{name}.rstd", rows)
        weight = self._parameters[f"{name}.weight"]
        self._norm.forward(stream, y, rstd, x, weight, rows, width)
        return StreamNorm(y, x, rstd)

    def add_norm(self, stream: int, name: str, x: Slice, branch: Slice) -> StreamNorm:
        """Norm of x + branch, which takes the place of branch."""
        rows, width = x.shape
        y, rstd = self._take_operand(f"{name}.y", rows, width), self._take(f"{name}.rstd", rows)
        weight = self._parameters[f"{name}.weight"]
        self._norm.add_forward(stream, y, rstd, branch, x, branch, weight, rows, width)
        return StreamNorm(y, branch, rstd)

    def norm_backward(
        self,
        stream: int,
        name: str,
        dy: Slice,
        saved: StreamNorm,
        branches: Branches,
        dx: Flow | None = None,
    ) -> Flow:
        """Gradient of what was normed: added to `dx`, the stream's own, or a new one.

        A branch computes the weight's, and reads dy and what is saved.
        """
        rows, width = dy.shape
        into = self._take_flow(f"{name}.dx", rows, width) if dx is None else dx
        partial = self._take(f"{name}.partial", *self._norm.partial_shape(rows, width))
        weight, dweight = self._parameters[f"{name}.weight"], self._gradients[f"{name}.weight"]
        self._norm.backward(
            stream, into.exact, dweight, partial, dy, saved.x, weight, saved.rstd, rows, width,
            add_dx=dx is not None, narrow=into.narrow, side=branches.fork,
        )  # fmt: skip
        branches.drop(partial)
        return into
