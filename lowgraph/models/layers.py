"""The layers of a `charlm` as calls: each takes its outputs from the pool and launches.

A layer is named by its parameters: "b.0.qkv" has "b.0.qkv.weight" and "b.0.qkv.bias". Activations
are [rows, channels], rows = B*T. A backward call overwrites the gradients of its layer's parameters
and returns the gradient of its input; what it reads is the caller's to give back.

The residual stream and its gradient are float32, and so are statistics of rows; all other
activations are of the precision's operand type (see `Linear`).

A norm is made with what makes its input, the embedding or a residual connection, in one launch.
Backward, each norm leaves sums of its parameters' gradients in one workspace, which a last launch
adds up for all norms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lowgraph import ops
from lowgraph.blas import Blas, Form, Layer
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool, Slice, upload
from lowgraph.models.linear import Flow
from lowgraph.models.presets import CharLMConfig
from lowgraph.models.token_layers import EmbeddingLayers
from lowgraph.precision import Precision

__all__ = ["Attended", "Layers", "Normed"]

_PARTS = "weight", "bias"


class Normed(NamedTuple):
    """A layer norm's output y and input x [rows, channels]; mean and 1/deviation [rows] of x."""

    y: Slice
    x: Slice
    mean: Slice
    rstd: Slice


class Attended(NamedTuple):
    """Attention's output [rows, d], its input qkv [rows, 3 d] and log-sum-exp [B, heads, T]."""

    y: Slice
    qkv: Slice
    lse: Slice


class Layers(EmbeddingLayers):
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
        *,
        norms: Sequence[str],
        stream: int,
    ) -> None:
        """norms: the names of all. Takes memory that lasts, and fills it on `stream`."""
        super().__init__(library, blas, pool, parameters, gradients, weights, precision)
        self._config = config
        self._embedding = ops.Embedding(library, config.vocabulary)
        self._layernorm = ops.LayerNorm(library, precision=precision)
        self._attention = _attention(library, config.head_size, precision)
        width = config.width
        self._columns = {name: 2 * width * index for index, name in enumerate(norms)}
        self._places = pool.take("norm places", (2 * width * len(norms),), np.int32, lasting=True)
        begins = [gradients.offset(f"{name}.{part}") for name in norms for part in _PARTS]
        places = np.add.outer(begins, np.arange(width)).astype(np.int32).reshape(-1)
        upload(self._places, places, stream)
        self._norms = gradients.those(f"{name}.{part}" for name in norms for part in _PARTS)

    # ---- embedding ----

    def embed_norm(self, stream: int, tokens: Slice, norm: str) -> Normed:
        """Sum of token (`e`) and position (`p`) embedding of tokens [B, T], and its norm."""
        batch, length = tokens.shape
        width = self._config.width
        x = self._take("x", batch * length, width)
        out = self._normed(norm, x)
        read = self._parameters["e.weight"], self._parameters["p.weight"]
        self._layernorm.embedding_forward(
            stream, x, out.y, out.mean, out.rstd, tokens, *read,
            *self._both(self._parameters, norm), batch * length, length, width,
        )  # fmt: skip
        return out

    def embed_backward(self, stream: int, dx: Slice, order: Slice, tokens: Slice) -> None:
        """Gradients of both tables from dx [rows, d]; rows of tokens that do not occur are zero."""
        tables = self._gradients["e.weight"], self._gradients["p.weight"]
        self._sum_rows(stream, tables, order, tokens, dx)

    # ---- layer norm ----

    def linear_norm(self, stream: int, name: str, norm: str, x: Slice, residual: Slice) -> Normed:
        """Norm of residual + (x weight^T + bias), that sum being the norm's x."""
        weight, bias = self._weights[f"{name}.weight"], self._parameters[f"{name}.bias"]
        (rows, inputs), outputs = x.shape, weight.shape[0]
        layer = Layer(Form.NORM, rows, inputs, outputs, self._precision)
        affine = self._both(self._parameters, norm)
        if self._blas.takes_norm(layer):
            out = self._normed(norm, self._take(f"{name}.y", rows, outputs))
            written = out.x, out.y, out.mean, out.rstd
            read = x, weight, bias, residual, *affine
            self._blas.linear_norm(stream, *written, *read, self._precision)
            return out
        y = self.project(stream, name, x, wide=True)
        out = self._normed(norm, y)
        self._layernorm.residual_forward(
            stream, y, out.y, out.mean, out.rstd, residual, y, bias, *affine, *y.shape
        )
        return out

    def renewed(self, name: str, flow: Flow) -> Flow:
        """The flow with an operand of its own, to be written: the old one is still being read."""
        return Flow(flow.exact, self._take_operand(f"{name}.dx as operand", *flow.exact.shape))

    def norm_sums(self, rows: int) -> Slice:
        """The workspace of a backward pass: [chunks of rows, channels of all norms' parameters]."""
        return self._take("norm sums", self._layernorm.chunks(rows).chunks, *self._places.shape)

    def norm_backward(
        self, stream: int, name: str, sums: Slice, dy: Slice, saved: Normed, dx: Flow | None = None
    ) -> Flow:
        """Gradient of x: added to `dx`, the residual stream's gradient, or a new one."""
        rows, width = saved.x.shape
        into = self._take_flow(f"{name}.dx", rows, width) if dx is None else dx
        first = self._columns[name]
        self._layernorm.backward(
            stream,
            into.exact,
            sums.part(first, (sums.elements - first,)),
            dy,
            saved.x,
            self._parameters[f"{name}.weight"],
            saved.mean,
            saved.rstd,
            rows,
            width,
            stride=self._places.elements,
            add_dx=dx is not None,
            narrow=into.narrow,
        )
        return into

    def takes_norm(self, name: str, dy: Slice) -> bool:
        """Whether the gradient of a layer's input goes through the norm there in one launch."""
        return self._blas.takes_norm(self._normed_layer(name, dy))

    def linear_norm_backward(
        self,
        stream: int,
        name: str,
        norm: str,
        sums: Slice,
        dy: Slice,
        saved: Normed,
        dx: Flow | None = None,
    ) -> Flow:
        """As `norm_backward` of the gradient of layer `name`'s input; where `takes_norm` says so.

        The layer's own parameters are another call's (`linear_gradients`).
        """
        rows, width = saved.x.shape
        into = self._take_flow(f"{norm}.dx", rows, width) if dx is None else dx
        first = self._columns[norm]
        self._blas.linear_norm_backward(
            stream,
            into.exact,
            into.operand,
            sums.part(first, (sums.elements - first,)),
            dy,
            self._weights[f"{name}.weight"],
            saved.x,
            self._parameters[f"{norm}.weight"],
            saved.mean,
            saved.rstd,
            self._precision,
            columns=self._places.elements,
            accumulate=dx is not None,
        )
        return into

    def norm_gradients(self, stream: int, sums: Slice, rows: int) -> None:
        """Gradients of all norms' parameters, from what `norm_backward` of each left in sums."""
        columns = self._places.elements
        self._layernorm.parameters(stream, self._norms, sums, self._places, rows, columns)

    # ---- linear with what follows it ----

    def linear_gelu(self, stream: int, name: str, x: Slice) -> tuple[Slice, Slice]:
        """Hidden h = x weight^T + bias, and gelu(h)."""
        weight, bias = self._both(self._weights, name)
        sizes = x.shape[0], weight.shape[0]
        hidden = self._take_operand(f"{name}.hidden", *sizes)
        active = self._take_operand(f"{name}.active", *sizes)
        self._blas.linear_gelu(stream, active, hidden, x, weight, bias, self._precision)
        return hidden, active

    def linear_gelu_backward(
        self,
        stream: int,
        name: str,
        dy: Slice,
        active: Slice,
        hidden: Slice,
        side: int | None = None,
        *,
        biased: bool = True,
    ) -> Slice:
        """Gradient of hidden, a new slice, where the layer's input is active = gelu(hidden).

        side, biased: as of `linear_backward`.
        """
        dhidden = self._take_operand(f"{name}.dhidden", *hidden.shape)
        weight, (dweight, dbias) = (
            self._weights[f"{name}.weight"],
            self._both(self._gradients, name),
        )
        tensors = dhidden, dweight, dbias if biased else None, dy, active, weight, hidden
        self._blas.linear_gelu_backward(stream, *tensors, self._precision, side=side)
        return dhidden

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

    def sums_biases(self, rows: int) -> bool:
        """Whether the products of a block sum all its biases' gradients with what they read."""
        forms = dict.fromkeys(("qkv", "o", "f1"), Form.BACKWARD) | {"f2": Form.BACKWARD_GELU}
        shapes = [
            (form, self._gradients[f"b.0.{name}.weight"].shape) for name, form in forms.items()
        ]
        return all(
            self._blas.sums_bias(Layer(form, rows, inputs, outputs, self._precision))
            for form, (outputs, inputs) in shapes
        )

    def _normed_layer(self, name: str, dy: Slice) -> Layer:
        outputs, inputs = self._weights[f"{name}.weight"].shape
        return Layer(Form.BACKWARD_NORM, dy.shape[0], inputs, outputs, self._precision)

    def _normed(self, name: str, x: Slice) -> Normed:
        """A norm's outputs, to be written."""
        y, rows = self._take_operand(f"{name}.y", *x.shape), x.shape[0]
        return Normed(y, x, self._take(f"{name}.mean", rows), self._take(f"{name}.rstd", rows))

    def _both(self, arena: Arena, name: str) -> tuple[Slice, Slice]:
        weight, bias = (arena[f"{name}.{part}"] for part in _PARTS)
        return weight, bias

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
