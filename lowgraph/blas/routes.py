"""Which way a linear layer is computed, by its form and size: a table, filled from measurements.

No timing at run time: the same sizes take the same way, and give the same bits, on every run.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from lowgraph.blas.layer import Form, Layer
from lowgraph.precision import Precision

__all__ = ["Route", "Routes", "choose"]


class Route(str, Enum):
    """A way.

    LIBRARY: cublasLt's products, what follows them as their epilogues. SEPARATE: plain products,
    then kernels of our own. OWN: kernels_cu/gemm_mma.cu does all.
    """

    LIBRARY = "library"
    SEPARATE = "separate"
    OWN = "own"


class Routes(NamedTuple):
    """The ways of a layer's products: forward's or, backward, dx's; and dweight's.

    OWN computes both gradients at once: neither or both.
    """

    first: Route
    weight: Route


Chooser = Callable[[Layer, str], Routes]
"""What `choose` is: from a layer and the name of `Blas.backend` to the layer's routes."""


class _Rule(NamedTuple):
    """most: multiply-adds of a product, up to which the rule holds."""

    form: Form
    most: float
    routes: Routes


_ANY = float("inf")
_LIBRARY = Routes(Route.LIBRARY, Route.LIBRARY)
_SEPARATE = Routes(Route.SEPARATE, Route.SEPARATE)
_OWN = Routes(Route.OWN, Route.OWN)
# The layers of a model of width 128 at 2048 rows. Up to here gemm_mma.cu is about as fast as the
# library's plain products (benchmarks/mma.py), its bias costs 0.4 us, and both gradients share a
# launch; at twice the width and rows the library is twice as fast.
_TINY = 2048 * 128 * 512
# With a residual only the square layer: of (2048, 512, 128) the library takes 4.0 us, OWN 5.3.
_NARROW = 2048 * 128 * 128

# On a GPU, bfloat16, rows of 16 bytes. benchmarks/linear.py times each route of each form.
_RULES = (
    _Rule(Form.BIAS, _TINY, _OWN),
    _Rule(Form.BIAS, _ANY, _LIBRARY),
    _Rule(Form.GELU, _TINY, _OWN),
    _Rule(Form.GELU, _ANY, _LIBRARY),
    _Rule(Form.RESIDUAL, _NARROW, _OWN),
    _Rule(Form.RESIDUAL, _ANY, _LIBRARY),
    _Rule(Form.BACKWARD, _TINY, _OWN),
    _Rule(Form.BACKWARD, _ANY, _LIBRARY),
    _Rule(Form.BACKWARD_GELU, _TINY, _OWN),
    _Rule(Form.BACKWARD_GELU, _ANY, _LIBRARY),
)


def choose(layer: Layer, backend: str) -> Routes:
    """The routes of a layer; backend: "cublas" or "kernel".

    SEPARATE in float32 and TF32, so that they round as they did before there were others; for rows
    that are no multiple of 16 bytes, which neither other route takes; and on the host device, where
    gemm.cu is the faster one.
    """
    whole = layer.inputs % 8 == layer.outputs % 8 == 0
    if backend != "cublas" or layer.precision is not Precision.BF16 or not whole:
        return _SEPARATE
    work = layer.rows * layer.inputs * layer.outputs
    return next(rule.routes for rule in _RULES if rule.form is layer.form and work <= rule.most)
