"""The route OWN: kernels_cu/gemm_mma.cu computes a whole layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lowgraph import ops
from lowgraph.blas.layer import Form
from lowgraph.blas.steps import Maker, Step
from lowgraph.errors import ConfigError
from lowgraph.memory import Slice
from lowgraph.precision import Precision

__all__ = ["apart", "whole"]


def whole(maker: Maker) -> Step:
    """All of a call, in one launch, or two backward."""
    layer = maker.layer
    if layer.form.is_backward:
        call = _backward(maker)

        def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
            dx, dweight, dbias, *read = tensors
            call(stream, dx, dweight, dbias, workspace.address, *read)

        return run
    fused = _fused(maker)
    calls: dict[Form, Callable[..., None]] = {
        Form.BIAS: fused.forward_bias,
        Form.GELU: fused.forward_gelu,
        Form.RESIDUAL: fused.forward_residual,
    }
    return _forward(calls[layer.form])


def apart(maker: Maker) -> tuple[Step, Step]:
    """A backward call as two steps that do not wait for each other, of the same bits."""
    call = _backward(maker)

    def first(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        dx, _, _, *read = tensors
        call(stream, dx, None, None, workspace.address, *read)

    def weight(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        _, dweight, dbias, *read = tensors
        call(stream, None, dweight, dbias, workspace.address, *read)

    return first, weight


def _fused(maker: Maker) -> ops.FusedLinear:
    layer = maker.layer
    if layer.precision is not Precision.BF16:
        raise ConfigError(f"route OWN is for bfloat16, not for {layer.precision}")
    return ops.FusedLinear(maker.library, *layer[1:4])


def _forward(call: Callable[..., None]) -> Step:
    def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        call(stream, *tensors)

    return run


def _backward(maker: Maker) -> Callable[..., None]:
    fused = _fused(maker)
    maker.need(fused.workspace_shape())
    gelu = maker.layer.form is Form.BACKWARD_GELU
    return fused.backward_gelu if gelu else fused.backward
