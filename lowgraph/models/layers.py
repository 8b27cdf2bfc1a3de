"""The layers of a `charlm` as calls: each takes its outputs from the pool and launches.

A layer is named by its parameters: "b.0.qkv" has "b.0.qkv.weight" and "b.0.qkv.bias". Activations
are [rows, channels], rows = B*T. A backward call overwrites the gradients of its layer's parameters
and returns the gradient of its input; what it reads is the caller's to give back.

The residual stream and its gradient are float32, and so are statistics of rows; all other
activations are of the precision's operand type (see `Linear`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lowgraph import ops
from lowgraph.blas import Blas
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool, Slice
from lowgraph.models.linear import Flow
from lowgraph.models.presets import CharLMConfig
from lowgraph.models.token_layers import TokenLayers
from lowgraph.precision import Precision

__all__ = ["Attended", "Layers", "Normed"]


class Normed(NamedTuple):
    """A layer norm's output [rows, channels], and the mean and 1/deviation [rows] it used."""

    y: Slice
    mean: Slice
    rstd: Slice


class Attended(NamedTuple):
    """Attention's output [rows, d], its input qkv [rows, 3 d] and log-sum-exp [B, heads, T]."""

    y: Slice
    qkv: Slice
    lse: Slice


class Layers(TokenLayers):
    """See the module; linear layers and the loss are the bases'."""

    def __init__(
        self,
        config: CharLMConfig,
        library: Library,
        blas: Blas,
        pool: PersistentPool,
        parameters: Arena,
        gradients: Arena,
        weights: Arena | None = None,
        precision: Precision = Precision.FP32,
    ) -> None:
        super().__init__(library, blas, pool, parameters, gradients, weights, precision)
        self._config = config
        self._embedding = ops.Embedding(library, config.vocabulary)
        self._layernorm = ops.LayerNorm(library, precision=precision)
        self._gelu = ops.BiasGelu(library, precision)
        self._residual = ops.Residual(library)
        self._attention = _attention(library, config.head_size, precision)

    # ---- embedding ----

    def embed(self, stream: int, tokens: Slice) -> Slice:
        """Sum of token (`e`) and position (`p`) embedding of tokens [B, T]: [rows, d]."""
        batch, length = tokens.shape
        width = self._config.width
        x = self._take("x", batch * length, width)
        tables = self._parameters["e.weight"], self._parameters["p.weight"]
        self._embedding.forward(stream, x, tokens, *tables, batch, length, width)
        return x

    def embed_backward(self, stream: int, dx: Slice, tokens: Slice) -> None:
        """Gradients of both tables from dx [rows, d]; rows of tokens that do not occur are zero."""
        batch, length = tokens.shape
        places = self._pool.take("places", self._embedding.places_shape(batch, length), np.int32)
        begin = self._pool.take("begin", self._embedding.begin_shape(), np.int32)
        tables = self._gradients["e.weight"], self._gradients["p.weight"]
        self._embedding.backward(
            stream, *tables, places, begin, dx, tokens, batch, length, self._config.width
        )
        self.drop(places, begin)

    # ---- layer norm ----

    def norm(self, stream: int, name: str, x: Slice) -> Normed:
        """Layer norm of x over its channels."""
        rows, width = x.shape
        out = Normed(
            self._take_operand(f"{name}.y", rows, width),
            self._take(f"{name}.mean", rows),
            self._take(f"{name}.rstd", rows),
        )
        weight, bias = self._both(self._parameters, name)
        self._layernorm.forward(stream, *out, x, weight, bias, rows, width)
        return out

    def norm_backward(
        self, stream: int, name: str, dy: Slice, x: Slice, saved: Normed, dx: Flow | None = None
    ) -> Flow:
        """Gradient of x: added to `dx`, the residual stream's gradient, or a new one."""
        rows, width = x.shape
        into = self._take_flow(f"{name}.dx", rows, width) if dx is None else dx
        partial = self._take(f"{name}.partial", *self._layernorm.partial_shape(rows, width))
        self._layernorm.backward(
            stream,
            into.exact,
            *self._both(self._gradients, name),
            partial,
            dy,
            x,
            self._parameters[f"{name}.weight"],
            saved.mean,
            saved.rstd,
            rows,
            width,
            add_dx=dx is not None,
            narrow=into.narrow,
        )
        self.drop(partial)
        return into

    # ---- linear with what follows it ----

    def linear_gelu(self, stream: int, name: str, x: Slice) -> tuple[Slice, Slice]:
        """Hidden h = x weight^T + bias, and gelu(h)."""
        hidden = self.project(stream, name, x)
        active = self._take_operand(f"{name}.active", *hidden.shape)
        self._gelu.forward(stream, active, hidden, self._parameters[f"{name}.bias"], *hidden.shape)
        return hidden, active

    def linear_residual(self, stream: int, name: str, x: Slice, residual: Slice) -> Slice:
        """y = residual + (x weight^T + bias)."""
        y = self.project(stream, name, x, wide=True)
        bias = self._parameters[f"{name}.bias"]
        self._residual.bias_add(stream, y, residual, y, bias, *y.shape)
        return y

    def gelu_backward(self, stream: int, dactive: Slice, hidden: Slice) -> None:
        """Turn the gradient of gelu(hidden) into the gradient of hidden, in place."""
        self._gelu.backward(stream, dactive, dactive, hidden, *hidden.shape)

    # ---- attention ----

    def attend(self, stream: int, name: str, qkv: Slice) -> Attended:
        """Causal attention of windows of T tokens: [rows, d] from q, k, v [rows, 3 d]."""
        sizes = self._attention_sizes(qkv)
        y = self._take_operand(f"{name}.mixed", qkv.shape[0], self._config.width)
        lse = self._take(f"{name}.lse", *self._attention.lse_shape(*sizes))
        self._attention.forward(stream, y, lse, qkv, *sizes)
        return Attended(y, qkv, lse)

    def attend_backward(self, stream: int, name: str, dy: Slice, saved: Attended) -> Slice:
        """Gradient of q, k, v, a new slice [rows, 3 d]."""
        sizes = self._attention_sizes(saved.qkv)
        dqkv = self._take_operand(f"{name}.dqkv", *saved.qkv.shape)
        delta = self._take(f"{name}.delta", *self._attention.lse_shape(*sizes))
        self._attention.backward(stream, dqkv, delta, dy, saved.qkv, saved.y, saved.lse, *sizes)
        self.drop(delta)
        return dqkv

    # ---- shapes and names ----

    def _both(self, arena: Arena, name: str) -> tuple[Slice, Slice]:
        return arena[f"{name}.weight"], arena[f"{name}.bias"]

    def _attention_sizes(self, qkv: Slice) -> tuple[int, int, int]:
        """Windows, heads and tokens a window, as the attention kernels want them."""
        config = self._config
        return qkv.shape[0] // config.context, config.heads, config.context


def _attention(
    library: Library, head_size: int, precision: Precision
) -> ops.CausalAttention | ops.FlashAttention:
    """By tensor cores where these have the type and the head size."""
    if precision is Precision.BF16 and ops.FlashAttention.takes(head_size):
        return ops.FlashAttention(library, head_size)
    return ops.CausalAttention(library, head_size, precision=precision)
