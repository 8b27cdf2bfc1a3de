"""The route LIBRARY: cublasLt's products, with what follows them as epilogues."""

from __future__ import annotations

from typing import Any

from lowgraph.blas.epilogue import Epilogue
from lowgraph.blas.layer import Form
from lowgraph.blas.steps import Maker, Step
from lowgraph.errors import ConfigError
from lowgraph.memory import Slice
from lowgraph.precision import Precision

__all__ = ["first", "weight"]


def first(maker: Maker) -> Step:
    """Forward, or dx: one product."""
    _refuse_relu(maker)
    makers = {
        Form.BIAS: _bias,
        Form.GELU: _gelu,
        Form.RESIDUAL: _residual,
        Form.BACKWARD: _dx,
        Form.BACKWARD_GELU: _dhidden,
    }
    return makers[maker.layer.form](maker)


def weight(maker: Maker) -> Step:
    """The gradients of weight and bias: one product."""
    _refuse_relu(maker)
    biased = maker.layer.biased
    epilogue = Epilogue.BIAS_GRADIENT if biased else Epilogue.NONE
    product = maker.product(maker.layer.of_dweight, epilogue)

    def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        _, dweight, dbias, dy, x = tensors[:5]
        product(stream, workspace, dweight, dy, x, (dbias,) if biased else ())

    return run


def _refuse_relu(maker: Maker) -> None:
    if maker.layer.form in (Form.RELU, Form.BACKWARD_RELU):
        raise ConfigError(
            f"route LIBRARY has no form {maker.layer.form.value!r}: take SEPARATE, or OWN in TF32"
        )


def _bias(maker: Maker) -> Step:
    product = maker.product(maker.layer.of_y, Epilogue.BIAS)

    def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        y, x, weight, bias = tensors
        product(stream, workspace, y, x, weight, (bias,))

    return run


def _gelu(maker: Maker) -> Step:
    product = maker.product(maker.layer.of_y, Epilogue.GELU)

    def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        active, hidden, x, weight, bias = tensors
        product(stream, workspace, active, x, weight, (bias, hidden))

    return run


def _residual(maker: Maker) -> Step:
    added = maker.layer.of_y._replace(accumulate=True)
    product = maker.product(added, Epilogue.BIAS)

    def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        out, x, weight, bias, residual = tensors
        product(stream, workspace, out, x, weight, (bias,), residual)

    return run


def _dx(maker: Maker) -> Step:
    product = maker.product(maker.layer.of_dx)

    def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        dx, _, _, dy, _, weight = tensors
        product(stream, workspace, dx, dy, weight)

    return run


def _dhidden(maker: Maker) -> Step:
    if maker.layer.precision is not Precision.BF16:
        # Measured on an H200: in float32 its slope is off by more than 2^-10 of itself.
        raise ConfigError(
            f"route LIBRARY's slope of GELU is for bfloat16, not for {maker.layer.precision}: "
            "take SEPARATE"
        )
    product = maker.product(maker.layer.of_dx, Epilogue.GELU_SLOPE)

    def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        dhidden, _, _, dy, _, weight, hidden = tensors
        product(stream, workspace, dhidden, dy, weight, (hidden,))

    return run
