"""Linear layers as calls, and what every model's layers are made with.

A layer is named by its parameters: "b.0.qkv" has "b.0.qkv.weight" and "b.0.qkv.bias". Activations
are float32 [rows, channels], rows = B*T. A backward call overwrites the gradients of its layer's
parameters and returns the gradient of its input; what it reads is the caller's to give back.
"""

from __future__ import annotations

from lowgraph import ops
from lowgraph.blas import Blas
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool, Slice

__all__ = ["Linear"]


class Linear:
    """Layers over one set of parameters.

    Kernels are taken from `library` once; calls allocate from `pool` only.
    """

    def __init__(
        self,
        library: Library,
        blas: Blas,
        pool: PersistentPool,
        parameters: Arena,
        gradients: Arena,
    ) -> None:
        self._blas = blas
        self._pool = pool
        self._parameters = parameters
        self._gradients = gradients
        self._bias = ops.Bias(library)

    def drop(self, *pieces: Slice) -> None:
        """Give slices back to the pool: later layers of the pass may take their memory."""
        for piece in pieces:
            self._pool.give_back(piece)

    def project(self, stream: int, name: str, x: Slice) -> Slice:
        """y = x weight^T, without a bias: [rows, out] from weight [out, in]."""
        weight = self._parameters[f"{name}.weight"]
        rows, inputs = x.shape
        outputs = weight.shape[0]
        y = self._take(f"{name}.y", rows, outputs)
        self._blas.gemm(stream, y, x, weight, rows, outputs, inputs, trans_b=True)
        return y

    def linear(self, stream: int, name: str, x: Slice) -> Slice:
        """y = x weight^T + bias."""
        y = self.project(stream, name, x)
        self._bias.forward(stream, y, self._parameters[f"{name}.bias"], *y.shape)
        return y

    def project_backward(
        self, stream: int, name: str, dy: Slice, x: Slice, dx: Slice | None = None
    ) -> Slice:
        """The gradient of x, dy weight: added to `dx`, or a new slice; the weight's, dy^T x."""
        self.weight_gradient(stream, name, dy, x)
        weight = self._parameters[f"{name}.weight"]
        rows, inputs = x.shape
        into = self._take(f"{name}.dx", rows, inputs) if dx is None else dx
        accumulate = dx is not None
        self._blas.gemm(stream, into, dy, weight, rows, inputs, dy.shape[1], accumulate=accumulate)
        return into

    def linear_backward(self, stream: int, name: str, dy: Slice, x: Slice) -> Slice:
        """As `project_backward`, into a new slice; the bias's gradient too."""
        self.bias_gradient(stream, name, dy)
        return self.project_backward(stream, name, dy, x)

    def weight_gradient(self, stream: int, name: str, dy: Slice, x: Slice) -> None:
        """dy^T x, for a layer whose input needs no gradient, or has it from elsewhere."""
        rows, inputs = x.shape
        dweight = self._gradients[f"{name}.weight"]
        self._blas.gemm(stream, dweight, dy, x, dy.shape[1], inputs, rows, trans_a=True)

    def bias_gradient(self, stream: int, name: str, dy: Slice) -> None:
        """The sums of dy's columns."""
        partial = self._take(f"{name}.partial", *self._bias.partial_shape(*dy.shape))
        self._bias.backward(stream, self._gradients[f"{name}.bias"], partial, dy, *dy.shape)
        self.drop(partial)

    def _take(self, name: str, *shape: int) -> Slice:
        return self._pool.take(name, shape)
