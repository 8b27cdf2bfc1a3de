"""The route OWN: a kernel of our own computes a whole layer.

In bfloat16 kernels_cu/gemm_mma.cu, with a norm gemm_mma_norm.cu, in TF32 kernels_cu/linear_tf32.cu.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from lowgraph import ops
from lowgraph.blas.layer import Form
from lowgraph.blas.steps import Maker, Step
from lowgraph.errors import ConfigError
from lowgraph.memory import Slice
from lowgraph.precision import Precision

__all__ = ["apart", "whole"]

_FORMS = {
    Precision.BF16: (
        *(Form.BIAS, Form.GELU, Form.RESIDUAL, Form.NORM),
        *(Form.BACKWARD, Form.BACKWARD_GELU, Form.BACKWARD_NORM),
    ),
    Precision.TF32: (Form.BIAS, Form.RELU, Form.BACKWARD, Form.BACKWARD_RELU),
}


def whole(maker: Maker) -> Step:
    """All of a call, in one launch, or in bfloat16 two backward."""
    layer = maker.layer
    if layer.form not in _FORMS.get(layer.precision, ()):
        remedy = "launch the norm behind the product" if layer.form.has_norm else "take SEPARATE"
        raise ConfigError(
            f"route OWN has no form {layer.form.value!r} in {layer.precision}: {remedy}"
        )
    return _tf32(maker) if layer.precision is Precision.TF32 else _bf16(maker)


def _tf32(maker: Maker) -> Step:
    linear = ops.LinearTf32(maker.library, *maker.layer[1:4])
    calls: dict[Form, Callable[..., None]] = {
        Form.BIAS: linear.forward,
        Form.RELU: linear.forward_relu,
        Form.BACKWARD: linear.backward,
        Form.BACKWARD_RELU: linear.backward_relu,
    }
    return _plain(calls[maker.layer.form])


def _bf16(maker: Maker) -> Step:
    layer = maker.layer
    if layer.form.has_norm:
        return _normed(maker)
    if layer.form.is_backward:
        return _with_workspace(_backward(maker))
    fused = _fused(maker)
    calls: dict[Form, Callable[..., None]] = {
        Form.BIAS: fused.forward_bias,
        Form.GELU: fused.forward_gelu,
        Form.RESIDUAL: fused.forward_residual,
    }
    return _plain(calls[layer.form])


def _normed(maker: Maker) -> Step:
    layer = maker.layer
    width = ops.NormedLinear.COLUMNS
    if layer.norm_width != width:
        raise ConfigError(
            f"route OWN has norms of {width} columns, not of {layer.norm_width}: launch the norm "
            "behind the product"
        )
    if not layer.form.is_backward:
        return _plain(ops.NormedLinear(maker.library, layer.rows, layer.inputs).forward)
    call = ops.NormedLinear(maker.library, layer.rows, layer.outputs).backward
    stride = layer.columns or 2 * width
    return _plain(partial(call, stride=stride, accumulate=layer.accumulate))


def apart(maker: Maker) -> tuple[Step, ...]:
    """A backward call as steps that do not wait for each other, of the same bits.

    In TF32 it is one launch of few blocks, which nothing is gained by parting.
    """
    if maker.layer.precision is Precision.TF32:
        return (whole(maker),)
    call = _backward(maker)

    def first(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        dx, _, _, *read = tensors
        call(stream, dx, None, None, workspace.address, *read)

    def weight(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        _, dweight, dbias, *read = tensors
        call(stream, None, dweight, dbias, workspace.address, *read)

    return first, weight


def _fused(maker: Maker) -> ops.FusedLinear:
    return ops.FusedLinear(maker.library, *maker.layer[1:4])


def _backward(maker: Maker) -> Callable[..., None]:
    fused = _fused(maker)
    maker.need(fused.workspace_shape())
    gelu = maker.layer.form is Form.BACKWARD_GELU
    return fused.backward_gelu if gelu else fused.backward


def _plain(call: Callable[..., None]) -> Step:
    def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        call(stream, *tensors)

    return run


def _with_workspace(call: Callable[..., None]) -> Step:
    def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        dx, dweight, dbias, *read = tensors
        call(stream, dx, dweight, dbias, workspace.address, *read)

    return run
