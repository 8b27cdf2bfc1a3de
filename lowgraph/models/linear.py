"""Linear layers as calls, and what every model's layers are made with.

A layer is named by its parameters: "b.0.qkv" has "b.0.qkv.weight" and "b.0.qkv.bias". Activations
are [rows, channels], rows = B*T. A backward call overwrites the gradients of its layer's parameters
and returns the gradient of its input; what it reads is the caller's to give back.

What products read is of the precision's operand type: x, dy and the weights, bfloat16 with BF16 and
else float32. What they write is too, unless `wide` asks for float32, as parameters' gradients are.
A kernel that makes an operand writes it in that type; where none does, `flow` casts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lowgraph import ops
from lowgraph.blas import Blas
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool, Slice
from lowgraph.precision import Precision

__all__ = ["Flow", "Linear"]


class Flow(NamedTuple):
    """A float32 matrix [rows, d] and what products read in its place, of the operand type.

    One slice twice where products read float32.
    """

    exact: Slice
    operand: Slice

    @property
    def pieces(self) -> tuple[Slice, ...]:
        """Its slices, each once."""
        return tuple(self) if self.operand is not self.exact else (self.exact,)

    @property
    def copies(self) -> tuple[Slice, ...]:
        """The operand where it is a slice of its own."""
        return self.pieces[1:]

    @property
    def narrow(self) -> Slice | int:
        """What a kernel that writes `exact` writes beside it; null where that is all."""
        return self.operand if self.operand is not self.exact else 0

    def part(self, offset: int, shape: tuple[int, ...]) -> Flow:
        """The same elements of both."""
        exact = self.exact.part(offset, shape)
        copies = [copy.part(offset, shape) for copy in self.copies]
        return Flow(exact, *(copies or [exact]))


class Linear:
    """Layers over one set of parameters.

    Kernels are taken from `library` once; calls allocate from `pool` only. weights: what products
    read of the parameters, a model's `shadow` with BF16; the parameters themselves if None.
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
        self._blas = blas
        self._pool = pool
        self._parameters = parameters
        self._gradients = gradients
        self._weights = parameters if weights is None else weights
        self._precision = precision
        # By the type of what is added to or summed: wide outputs have a bias too.
        self._bias = {kind.operand: ops.Bias(library, kind) for kind in {Precision.FP32, precision}}
        self._cast = ops.Cast(library) if precision is Precision.BF16 else None

    def drop(self, *pieces: Slice) -> None:
        """Give slices back to the pool: later layers of the pass may take their memory."""
        for piece in pieces:
            self._pool.give_back(piece)

    def flow(self, stream: int, name: str, exact: Slice) -> Flow:
        """float32 `exact` [rows, columns], and a copy for products with BF16; a launch there."""
        made = self.beside(name, exact)
        self.round_operand(stream, made)
        return made

    def beside(self, name: str, exact: Slice) -> Flow:
        """As `flow`, but the copy is still to be written."""
        if self._cast is None:
            return Flow(exact, exact)
        return Flow(exact, self._take_operand(f"{name} as operand", *exact.shape))

    def round_operand(self, stream: int, flow: Flow) -> None:
        """Make the copy, if there is one, again: `exact` has changed."""
        if self._cast is not None:
            self._cast.forward(stream, flow.operand, flow.exact, flow.exact.elements)

    def project(self, stream: int, name: str, x: Slice, *, wide: bool = False) -> Slice:
        """y = x weight^T, without a bias: [rows, out] from weight [out, in]."""
        weight = self._weights[f"{name}.weight"]
        rows, inputs = x.shape
        outputs = weight.shape[0]
        take = self._take if wide else self._take_operand
        y = take(f"{name}.y", rows, outputs)
        sizes = rows, outputs, inputs
        self._blas.gemm(stream, y, x, weight, *sizes, trans_b=True, precision=self._precision)
        return y

    def linear(self, stream: int, name: str, x: Slice, *, wide: bool = False) -> Slice:
        """y = x weight^T + bias."""
        if wide and self._precision is Precision.BF16:
            y = self.project(stream, name, x, wide=True)
            self._bias[y.dtype].forward(stream, y, self._parameters[f"{name}.bias"], *y.shape)
            return y
        weight = self._weights[f"{name}.weight"]
        y = self._take_operand(f"{name}.y", x.shape[0], weight.shape[0])
        # The bias has the type of what it is added to.
        bias = self._weights[f"{name}.bias"]
        self._blas.linear(stream, y, x, weight, bias, self._precision)
        return y

    def linear_relu(self, stream: int, name: str, x: Slice) -> Slice:
        """y = max(x weight^T + bias, 0), which backward needs."""
        # The bias is the parameter itself, also where weights are a shadow: a step that reads none
        # could not be told that somebody moved them.
        weight, bias = self._weights[f"{name}.weight"], self._parameters[f"{name}.bias"]
        y = self._take_operand(f"{name}.y", x.shape[0], weight.shape[0])
        self._blas.linear_relu(stream, y, x, weight, bias, self._precision)
        return y

    def linear_relu_backward(self, stream: int, name: str, dy: Slice, x: Slice, y: Slice) -> Slice:
        """The gradient of x, a new slice; those of weight and bias. dy may have changed then."""
        dx = self._take_operand(f"{name}.dx", *x.shape)
        self._linear_relu_backward(stream, name, dx, dy, x, y)
        return dx

    def linear_relu_gradients(self, stream: int, name: str, dy: Slice, x: Slice, y: Slice) -> None:
        """The same for a layer whose input needs no gradient."""
        self._linear_relu_backward(stream, name, None, dy, x, y)

    def project_backward(
        self,
        stream: int,
        name: str,
        dy: Slice,
        x: Slice,
        dx: Slice | None = None,
        *,
        wide: bool = False,
        side: int | None = None,
    ) -> Slice:
        """The gradient of x, dy weight: a new slice, or added to `dx`; the weight's, dy^T x.

        dx: float32, whatever the precision. side: as of `linear_backward`.
        """
        into = self.input_gradient(stream, name, dy, dx, wide=wide)
        self.weight_gradient(stream if side is None else side, name, dy, x)
        return into

    def input_gradient(
        self, stream: int, name: str, dy: Slice, dx: Slice | None = None, *, wide: bool = False
    ) -> Slice:
        """As `project_backward`, without the gradient of the weight."""
        weight = self._weights[f"{name}.weight"]
        rows, inputs = dy.shape[0], weight.shape[1]
        take = self._take if wide else self._take_operand
        into = take(f"{name}.dx", rows, inputs) if dx is None else dx
        self._blas.gemm(
            stream,
            into,
            dy,
            weight,
            rows,
            inputs,
            dy.shape[1],
            accumulate=dx is not None,
            precision=self._precision,
        )
        return into

    def linear_backward(
        self,
        stream: int,
        name: str,
        dy: Slice,
        x: Slice,
        side: int | None = None,
        *,
        biased: bool = True,
    ) -> Slice:
        """The gradient of x, a new slice; those of the weight, and of the bias if there is one.

        side: a stream for those of the parameters, whose last work is behind what made dy. biased:
        False for a bias whose gradient is made elsewhere.
        """
        dx = self._take_operand(f"{name}.dx", *x.shape)
        self._linear_backward(stream, name, dx, dy, x, side, biased)
        return dx

    def linear_gradients(
        self, stream: int, name: str, dy: Slice, x: Slice, *, biased: bool = True
    ) -> None:
        """The same for a layer whose input has its gradient from elsewhere."""
        self._linear_backward(stream, name, None, dy, x, None, biased)

    def weight_gradient(self, stream: int, name: str, dy: Slice, x: Slice) -> None:
        """dy^T x, for a layer whose input needs no gradient, or has it from elsewhere."""
        rows, inputs = x.shape
        dweight = self._gradients[f"{name}.weight"]
        sizes = dy.shape[1], inputs, rows
        self._blas.gemm(stream, dweight, dy, x, *sizes, trans_a=True, precision=self._precision)

    def bias_gradient(
        self, stream: int, name: str, dy: Slice, drop: Callable[[Slice], None] | None = None
    ) -> None:
        """The sums of dy's columns; dy may be float32 whatever the precision.

        drop: what gives the workspace back, on a side stream.
        """
        partial = self._take(f"{name}.partial", *ops.Bias.partial_shape(*dy.shape))
        dbias = self._gradients[f"{name}.bias"]
        self._bias[dy.dtype].backward(stream, dbias, partial, dy, *dy.shape)
        (drop or self.drop)(partial)

    def _linear_backward(
        self,
        stream: int,
        name: str,
        dx: Slice | None,
        dy: Slice,
        x: Slice,
        side: int | None,
        biased: bool,
    ) -> None:
        weight, dweight = self._weights[f"{name}.weight"], self._gradients[f"{name}.weight"]
        dbias = self._gradients.get(f"{name}.bias") if biased else None
        tensors = dx, dweight, dbias, dy, x, weight
        self._blas.linear_backward(stream, *tensors, self._precision, side=side)

    def _linear_relu_backward(
        self, stream: int, name: str, dx: Slice | None, dy: Slice, x: Slice, y: Slice
    ) -> None:
        weight = self._weights[f"{name}.weight"]
        dweight, dbias = (self._gradients[f"{name}.{part}"] for part in ("weight", "bias"))
        tensors = dx, dweight, dbias, dy, x, weight, y
        self._blas.linear_relu_backward(stream, *tensors, self._precision)

    def _take_flow(self, name: str, *shape: int) -> Flow:
        """A matrix for kernels that write both."""
        return self.beside(name, self._take(name, *shape))

    def _take(self, name: str, *shape: int) -> Slice:
        return self._pool.take(name, shape)

    def _take_operand(self, name: str, *shape: int) -> Slice:
        return self._pool.take(name, shape, self._precision.operand)
