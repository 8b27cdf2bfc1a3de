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
    """Layers over one set of parameters. Kernels are taken from `library` once; calls allocate from
    `pool` only.
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

    def project_backward(self, stream: int, name: str, dy: Slice, x: Slice) -> Slice:
        """dx = dy weight, a new slice; the weight's gradient dy^T x."""
        weight, dweight = self._parameters[f"{name}.weight"], self._gradients[f"{name}.weight"]
        rows, inputs = x.shape
        outputs = weight.shape[0]
        self._blas.gemm(stream, dweight, dy, x, outputs, inputs, rows, trans_a=True)
        dx = self._take(f"{name}.dx", rows, inputs)
        self._blas.gemm(stream, dx, dy, weight, rows, inputs, outputs)
        return dx

    def linear_backward(self, stream: int, name: str, dy: Slice, x: Slice) -> Slice:
        """As `project_backward`; the bias's gradient too."""
        partial = self._take(f"{name}.partial", *self._bias.partial_shape(*dy.shape))
        self._bias.backward(stream, self._gradients[f"{name}.bias"], partial, dy, *dy.shape)
        self.drop(partial)
        return self.project_backward(stream, name, dy, x)

    def _take(self, name: str, *shape: int) -> Slice:
        return self._pool.take(name, shape)
