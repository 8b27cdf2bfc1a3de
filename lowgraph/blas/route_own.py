"""The route OWN: a kernel of our own computes a whole layer.

In bfloat16 kernels_cu/gemm_mma.cu, in TF32 kernels_cu/linear_tf32.cu.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from lowgraph import ops
from lowgraph.blas.layer import Form
from lowgraph.blas.steps import Maker, Step
from lowgraph.errors import ConfigError
from lowgraph.memory import Slice
from lowgraph.precision import Precision

__all__ = ["Joint", "apart", "joint", "whole"]

_FORMS = {
    Precision.BF16: (Form.BIAS, Form.GELU, Form.RESIDUAL, Form.BACKWARD, Form.BACKWARD_GELU),
    Precision.TF32: (Form.BIAS, Form.RELU, Form.BACKWARD, Form.BACKWARD_RELU),
}


def whole(maker: Maker) -> Step:
    """All of a call, in one launch, or in bfloat16 two backward."""
    layer = maker.layer
    if layer.form not in _FORMS.get(layer.precision, ()):
        raise ConfigError(
            f"route OWN has no form {layer.form.value!r} in {layer.precision}: take SEPARATE"
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
    if layer.form.is_backward:
        return _with_workspace(_backward(maker))
    fused = _fused(maker)
    calls: dict[Form, Callable[..., None]] = {
        Form.BIAS: fused.forward_bias,
        Form.GELU: fused.forward_gelu,
        Form.RESIDUAL: fused.forward_residual,
    }
    return _plain(calls[layer.form])


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


class Joint(NamedTuple):
    """A backward call in one launch, and behind it on another stream one that sums its parts.

    room: shape of the float32 workspace, in use until that is done. run: stream, workspace, the
    call's tensors, and what forks the other stream.
    """

    room: tuple[int, int]
    run: Callable[[int, Slice, tuple[Any, ...], Callable[[], int]], None]


def joint(maker: Maker) -> Joint | None:
    """See `Joint`; of the bits of `whole`. None in TF32, which sums no parts."""
    if maker.layer.precision is Precision.TF32:
        return None
    fused = _fused(maker)
    call = fused.backward_gelu if _has_gelu(maker) else fused.backward

    def run(stream: int, room: Slice, tensors: tuple[Any, ...], fork: Callable[[], int]) -> None:
        dx, dweight, dbias, *read = tensors
        call(stream, dx, dweight, dbias, room, *read, side=fork)

    return Joint(fused.workspace_shape(), run)


def _has_gelu(maker: Maker) -> bool:
    return maker.layer.form is Form.BACKWARD_GELU


def _fused(maker: Maker) -> ops.FusedLinear:
    return ops.FusedLinear(maker.library, *maker.layer[1:4])


def _backward(maker: Maker) -> Callable[..., None]:
    fused = _fused(maker)
    maker.need(fused.workspace_shape())
    return fused.backward_gelu if _has_gelu(maker) else fused.backward


def _plain(call: Callable[..., None]) -> Step:
    def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        call(stream, *tensors)

    return run


def _with_workspace(call: Callable[..., None]) -> Step:
    def run(stream: int, workspace: Slice, tensors: tuple[Any, ...]) -> None:
        dx, dweight, dbias, *read = tensors
        call(stream, dx, dweight, dbias, workspace.address, *read)

    return run
