"""Which way a linear layer is computed, by its form and size: a table, filled from measurements.

No timing at run time: the same sizes take the same way, and give the same bits, on every run.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from lowgraph.blas.layer import Form, Layer
from lowgraph.ops import NormedLinear
from lowgraph.precision import Precision

__all__ = ["Route", "Routes", "choose"]


class Route(str, Enum):
    """A way.

    LIBRARY: cublasLt's products, what follows them as their epilogues. SEPARATE: plain products,
    and kernels of our own around them. OWN: one of kernels_cu/gemm_mma.cu, gemm_mma_norm.cu or
    linear_tf32.cu does all. Of a form with a norm (`Form.has_norm`) only OWN is a way: the others
    say that the norm is a launch of the caller's.
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


_ANY = float("inf")


class _Rule(NamedTuple):
    """most: multiply-adds of a product, longest: rows or columns, up to which the rule holds.

    width: of the norm, the only one it holds for.
    """

    form: Form
    most: float
    routes: Routes
    longest: float = _ANY
    width: int | None = None

    def holds(self, layer: Layer) -> bool:
        """Whether it is for a layer of the precision it stands under."""
        work, side = layer.rows * layer.inputs * layer.outputs, max(layer[1:4])
        fits = self.width in (None, layer.norm_width)
        return self.form is layer.form and work <= self.most and side <= self.longest and fits


_LIBRARY = Routes(Route.LIBRARY, Route.LIBRARY)
_SEPARATE = Routes(Route.SEPARATE, Route.SEPARATE)
_OWN = Routes(Route.OWN, Route.OWN)
# The layers of a model of width 128 at 2048 rows. Up to here gemm_mma.cu is about as fast as the
# library's plain products (benchmarks/mma.py), and its bias costs 0.4 us; at twice the width and
# rows the library is twice as fast. Backward it has both gradients in 9 to 10 us where the library
# takes 11 to 14, two of them for the sum of the bias; but a model that sums biases for two layers a
# launch is faster with the library: forward, loss and backward of tiny 145 us, 153 with OWN
# (benchmarks/charlm_passes.py).
_TINY = 2048 * 128 * 512
# With a residual only the square layer: of (2048, 512, 128) the library takes 4.0 us, OWN 5.3.
_NARROW = 2048 * 128 * 128
# gemm_mma_norm.cu: a norm in the launch of its product, of one width and of rows that give no
# multiprocessor more than a block. benchmarks/normed_products.py.
_MANY_ROWS = 4096
# linear_tf32.cu: few enough tiles for a wave or two of blocks, and a depth that its warps sum in a
# turn or two. Foreseen and not measured yet: docs/performance.md, "The MLP".
_FEW = 256 * 256 * 256
_SHORT = 512
# So few multiply-adds that the library's product and the launch for the bias behind it wait longer
# than they work, whatever the number of rows: perception's input, 2 048 rows of 32.
_SHALLOW = 2048 * 128 * 32

# On a GPU. benchmarks/linear.py times each route of each form. What no rule is for is SEPARATE:
# float32, so that it rounds as it did before there were other routes.
_RULES = {
    Precision.BF16: (
        _Rule(Form.BIAS, _TINY, _OWN),
        _Rule(Form.BIAS, _ANY, _LIBRARY),
        _Rule(Form.GELU, _TINY, _OWN),
        _Rule(Form.GELU, _ANY, _LIBRARY),
        _Rule(Form.RESIDUAL, _NARROW, _OWN),
        _Rule(Form.RESIDUAL, _ANY, _LIBRARY),
        _Rule(Form.NORM, _TINY, _OWN, _MANY_ROWS, NormedLinear.COLUMNS),
        _Rule(Form.BACKWARD, _ANY, _LIBRARY),
        _Rule(Form.BACKWARD_GELU, _ANY, _LIBRARY),
        _Rule(Form.BACKWARD_NORM, _TINY, _OWN, _MANY_ROWS, NormedLinear.COLUMNS),
    ),
    Precision.TF32: (
        _Rule(Form.BIAS, _SHALLOW, _OWN),
        _Rule(Form.BIAS, _FEW, _OWN, _SHORT),
        _Rule(Form.RELU, _FEW, _OWN, _SHORT),
        _Rule(Form.BACKWARD, _FEW, _OWN, _SHORT),
        _Rule(Form.BACKWARD_RELU, _FEW, _OWN, _SHORT),
    ),
    Precision.FP32: (),
}


def choose(layer: Layer, backend: str) -> Routes:
    """The routes of a layer; backend: "cublas" or "kernel".

    SEPARATE in float32; for rows that are no multiple of 16 bytes, which neither other route takes
    (in TF32 those of x and weight alone count); and on the host device, where gemm.cu is the faster
    one.
    """
    if backend != "cublas" or not _is_whole(layer):
        return _SEPARATE
    holding = (rule.routes for rule in _RULES[layer.precision] if rule.holds(layer))
    return next(holding, _SEPARATE)


def _is_whole(layer: Layer) -> bool:
    if layer.precision is Precision.BF16:
        return layer.inputs % 8 == layer.outputs % 8 == 0
    return layer.inputs % 4 == 0
