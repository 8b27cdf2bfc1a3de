"""What a call of a linear layer is: its form and sizes, and the tensors it takes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from lowgraph.blas.backend import Product, Tensor
from lowgraph.errors import ConfigError
from lowgraph.integers import integer
from lowgraph.ops import LayerNorm
from lowgraph.precision import BFLOAT16, Precision

__all__ = ["Form", "Layer", "checked_keys"]

_FLOAT32 = np.dtype(np.float32)


class Form(str, Enum):
    """What a call does beside its products; `Blas` has a method for each."""

    BIAS = "bias"
    RELU = "relu"
    GELU = "gelu"
    RESIDUAL = "residual"
    NORM = "norm"
    BACKWARD = "backward"
    BACKWARD_RELU = "backward relu"
    BACKWARD_GELU = "backward gelu"
    BACKWARD_NORM = "backward norm"

    @property
    def is_backward(self) -> bool:
        """Whether it computes gradients."""
        return self.sums_parameters or self is Form.BACKWARD_NORM

    @property
    def sums_parameters(self) -> bool:
        """Whether it computes the gradients of weight and bias."""
        return self in (Form.BACKWARD, Form.BACKWARD_RELU, Form.BACKWARD_GELU)

    @property
    def has_norm(self) -> bool:
        """Whether it does a layer norm's work, too: forms of the route OWN alone."""
        return self in (Form.NORM, Form.BACKWARD_NORM)


# By form: the tensors of a call in their order. A star: float32 whatever the precision.
_ROLES = {
    Form.BIAS: "y x weight bias",
    Form.RELU: "y x weight bias*",
    Form.GELU: "active hidden x weight bias",
    Form.RESIDUAL: "out* x weight bias* residual*",
    Form.NORM: "out* y mean* rstd* x weight bias* residual* scale* shift*",
    Form.BACKWARD: "dx dweight* dbias* dy x weight",
    Form.BACKWARD_RELU: "dx dweight* dbias* dy x weight y",
    Form.BACKWARD_GELU: "dhidden dweight* dbias* dy active weight hidden",
    Form.BACKWARD_NORM: "dx* narrow partial* dy weight normed* scale* mean* rstd*",
}
# Backward of GELU, the layer's input is an activation, and `hidden` is of that; forward, its output
# is. ReLU is of the output both ways.
_INPUT = ("rows", "inputs")
_OUTPUT = ("rows", "outputs")
_SIZES = {
    **dict.fromkeys(("x", "dx", "dhidden"), _INPUT),
    **dict.fromkeys(("y", "dy", "out", "residual"), _OUTPUT),
    **dict.fromkeys(("weight", "dweight"), ("outputs", "inputs")),
    **dict.fromkeys(("bias", "dbias"), ("outputs",)),
    **dict.fromkeys(("scale", "shift"), ("norm_width",)),
    **dict.fromkeys(("mean", "rstd"), ("rows",)),
}


class Layer(NamedTuple):
    """A call of a linear layer y[rows,outputs] = x[rows,inputs] weight[outputs,inputs]^T.

    biased, input_gradient: whether backward computes the gradients of the bias and of the input; a
    forward form always has a bias. precision: as of a `Product`. columns, of a backward norm: those
    of the matrix that it leaves its sums in, 0 for its own alone. accumulate: it adds to dx.
    """

    form: Form
    rows: int
    inputs: int
    outputs: int
    precision: Precision = Precision.FP32
    biased: bool = True
    input_gradient: bool = True
    columns: int = 0
    accumulate: bool = False

    def check(self) -> Layer:
        """Return it. Raises ConfigError for sizes or flags that cannot be."""
        if min(self.rows, self.inputs, self.outputs) < 1:
            sizes = f"rows={self.rows}, inputs={self.inputs}, outputs={self.outputs}"
            raise ConfigError(f"linear of {sizes}: each must be at least 1")
        if not (self.biased or self.form.is_backward):
            raise ConfigError(
                f"linear: form {self.form.value!r} adds a bias: for a product alone call gemm"
            )
        if not (self.input_gradient or self.form.is_backward):
            raise ConfigError(
                f"linear: form {self.form.value!r} computes no gradient: leave input_gradient out"
            )
        norm = self.form is Form.BACKWARD_NORM
        if (self.columns or self.accumulate) and not norm:
            raise ConfigError(
                f"linear: form {self.form.value!r} leaves no norm's sums and adds to nothing: "
                "leave columns and accumulate out"
            )
        if norm and self.columns and self.columns < 2 * self.inputs:
            raise ConfigError(
                f"linear: the sums of a norm of {self.inputs} columns are {2 * self.inputs} a row, "
                f"and columns is {self.columns}: give those of the whole matrix, or 0"
            )
        return self

    def plain(self) -> Layer:
        """It in Python's own types: it is a key, and every later call compares with it.

        Raises ConfigError for a size that is no integer.
        """
        return Layer(
            Form(self.form),
            integer(self.rows, "linear: rows"),
            integer(self.inputs, "linear: inputs"),
            integer(self.outputs, "linear: outputs"),
            Precision(self.precision),
            bool(self.biased),
            bool(self.input_gradient),
            integer(self.columns, "linear: columns"),
            bool(self.accumulate),
        )

    def as_call(self) -> str:
        """The layer as it is written in a `prepare` call."""
        names = "biased", "input_gradient"
        flags = "".join(f", {name}=False" for name in names if not getattr(self, name))
        given = {"columns": self.columns, "accumulate": self.accumulate}
        flags += "".join(f", {name}={value}" for name, value in given.items() if value)
        precision = f"Precision.{Precision(self.precision).name}"
        sizes = f"{self.rows}, {self.inputs}, {self.outputs}"
        return f"Layer(Form.{Form(self.form).name}, {sizes}, {precision}{flags})"

    def tensors(self) -> list[Tensor | None]:
        """What a call of it takes, in order; None for a gradient that nobody wants."""
        return [self._tensor(role) for role in _ROLES[self.form].split()]

    @property
    def alignment(self) -> int:
        """Bytes that each tensor must begin at a multiple of."""
        return 4 if self.precision is Precision.FP32 else 16

    @property
    def norm_width(self) -> int:
        """The columns of the norm that a form with one has."""
        return self.inputs if self.form.is_backward else self.outputs

    @property
    def of_y(self) -> Product:
        """The product of a forward form."""
        narrow = self._is_narrow and self.form is not Form.RESIDUAL
        sizes = self.rows, self.outputs, self.inputs
        return Product(*sizes, trans_b=True, precision=self.precision, narrow=narrow)

    @property
    def of_dx(self) -> Product:
        """The product dy weight."""
        sizes = self.rows, self.inputs, self.outputs
        return Product(*sizes, precision=self.precision, narrow=self._is_narrow)

    @property
    def of_dweight(self) -> Product:
        """The product dy^T x."""
        sizes = self.outputs, self.inputs, self.rows
        return Product(*sizes, trans_a=True, precision=self.precision)

    @property
    def _is_narrow(self) -> bool:
        return self.precision is Precision.BF16

    def _tensor(self, starred: str) -> Tensor | None:
        role = starred.rstrip("*")
        if role == "dbias" and not self.biased:
            return None
        if role in ("dx", "dhidden") and not self.input_gradient:
            return None
        dtype = BFLOAT16 if self._is_narrow and role == starred else _FLOAT32
        if role == "partial":
            chunks = LayerNorm.chunks(self.rows).chunks
            least = 2 * self.inputs
            return Tensor(role, ((chunks - 1) * (self.columns or least) + least,), dtype)
        names = _SIZES.get(role) or (_INPUT if self.form.is_backward else _OUTPUT)
        return Tensor(role, tuple(getattr(self, name) for name in names), dtype)


def checked_keys(given: Iterable[Product | Layer]) -> list[Product | Layer]:
    """What `prepare` is given, checked. Raises ConfigError for what is no list of these.

    Both are tuples, so that one of them is a list too: of numbers, which are neither.
    """
    if isinstance(given, (Product, Layer)):
        raise ConfigError(
            f"blas.prepare takes a list, and was given one {type(given).__name__}: call "
            f"blas.prepare([{given.as_call()}])"
        )
    if not isinstance(given, Iterable):
        raise _no_key("blas.prepare", given)
    return [_key(each).plain().check() for each in given]


def _key(given: Any) -> Product | Layer:
    if isinstance(given, (Product, Layer)):
        return given
    least, most = 3, len(Product._fields)
    if not isinstance(given, tuple) or not least <= len(given) <= most:
        raise _no_key("an element of blas.prepare's list", given)
    return Product(*given)


def _no_key(what: str, given: Any) -> ConfigError:
    return ConfigError(
        f"{what} is {given!r}: give a list of products and layers, as in "
        "blas.prepare([Product(m, n, k), Layer(form, rows, inputs, outputs)])"
    )
