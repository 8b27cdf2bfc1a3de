"""The route SEPARATE: plain products, and kernels of our own for what follows them."""

from __future__ import annotations

from typing import Any

from lowgraph import ops
from lowgraph.blas.layer import Form
from lowgraph.blas.steps import Maker, Step
from lowgraph.memory import Slice

__all__ = ["first", "weight"]


def first(maker: Maker) -> Step:
    """Forward, or dx: a product, and a launch if something follows it, or dz comes before it."""
    makers = {
        Form.BIAS: _bias,
        Form.RELU: _relu,
        Form.GELU: _gelu,
        Form.RESIDUAL: _residual,
        Form.BACKWARD: _dx,
        Form.BACKWARD_RELU: _dz_dx,
        Form.BACKWARD_GELU: _dhidden,
    }
    return makers[maker.layer.form](maker)


def weight(maker: Maker) -> Step:
    """The gradients of weight and bias: a product, and two launches if there is a bias.

    With ReLU the bias's came with dz, which was left in dy.
    """
    layer, product = maker.layer, maker.product(maker.layer.of_dweight)
    sums_bias = layer.form is not Form.BACKWARD_RELU
    bias = ops.Bias(maker.library, layer.precision)
    maker.need(ops.Bias.partial_shape(layer.rows, layer.outputs))

    def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        _, dweight, dbias, dy, x = tensors[:5]
        product(stream, workspace, dweight, dy, x)
        if dbias is not None and sums_bias:
            sizes = layer.rows, layer.outputs
            bias.backward(stream, dbias, workspace.address, dy, *sizes)

    return run


def _bias(maker: Maker) -> Step:
    layer, product = maker.layer, maker.product(maker.layer.of_y)
    bias = ops.Bias(maker.library, layer.precision, layer.precision)

    def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        y, x, weight, add = tensors
        product(stream, workspace, y, x, weight)
        bias.forward(stream, y, add, layer.rows, layer.outputs)

    return run


def _relu(maker: Maker) -> Step:
    layer, product = maker.layer, maker.product(maker.layer.of_y)
    relu = ops.BiasRelu(maker.library, layer.precision)

    def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        y, x, weight, bias = tensors
        product(stream, workspace, y, x, weight)
        relu.forward(stream, y, bias, layer.rows, layer.outputs)

    return run


def _gelu(maker: Maker) -> Step:
    layer, product = maker.layer, maker.product(maker.layer.of_y)
    gelu = ops.BiasGelu(maker.library, layer.precision, layer.precision)

    def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        active, hidden, x, weight, bias = tensors
        product(stream, workspace, hidden, x, weight)
        gelu.forward(stream, active, hidden, bias, layer.rows, layer.outputs)

    return run


def _residual(maker: Maker) -> Step:
    layer, product = maker.layer, maker.product(maker.layer.of_y)
    joined = ops.Residual(maker.library)

    def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        out, x, weight, bias, residual = tensors
        product(stream, workspace, out, x, weight)
        joined.bias_add(stream, out, residual, out, bias, layer.rows, layer.outputs)

    return run


def _dx(maker: Maker) -> Step:
    product = maker.product(maker.layer.of_dx)

    def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        dx, _, _, dy, _, weight = tensors[:6]
        product(stream, workspace, dx, dy, weight)

    return run


def _dz_dx(maker: Maker) -> Step:
    layer, dx_step = maker.layer, _dx(maker) if maker.layer.input_gradient else None
    relu = ops.BiasRelu(maker.library, layer.precision)
    maker.need((1, layer.outputs))

    def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        _, _, dbias, dy, *_, y = tensors
        sums = workspace.address if dbias is None else dbias
        relu.backward(stream, dy, sums, y, layer.rows, layer.outputs)
        if dx_step is not None:
            dx_step(stream, workspace, tensors)

    return run


def _dhidden(maker: Maker) -> Step:
    layer, product = maker.layer, maker.product(maker.layer.of_dx)
    gelu = ops.BiasGelu(maker.library, layer.precision)

    def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        dhidden, _, _, dy, _, weight, hidden = tensors
        product(stream, workspace, dhidden, dy, weight)
        gelu.backward(stream, dhidden, dhidden, hidden, layer.rows, layer.inputs)

    return run
