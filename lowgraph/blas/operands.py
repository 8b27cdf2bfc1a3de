"""Whether the memory that a product or a layer is given fits it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lowgraph.blas.backend import Product
from lowgraph.blas.layer import Layer
from lowgraph.errors import ConfigError
from lowgraph.precision import BFLOAT16

__all__ = ["check_operands", "check_tensors"]


def check_operands(product: Product, out: Any, a: Any, b: Any) -> None:
    """Raise ConfigError for the first of out, a and b whose dtype, size or address does not fit."""
    m, n, k = product[:3]
    operand = product.precision.operand
    _check("gemm: out", out, m * n, product.out_dtype)
    _check("gemm: a", a, m * k, operand)
    _check("gemm: b", b, k * n, operand)
    for role, given in (("gemm: out", out), ("gemm: a", a), ("gemm: b", b)):
        _check_beginning(role, given, product)


def check_tensors(layer: Layer, tensors: tuple[Any, ...]) -> None:
    """Raise ConfigError for the first tensor of a call that does not fit as an operand must."""
    for wanted, given in zip(layer.tensors(), tensors, strict=True):
        if wanted is not None:
            role = f"linear: {wanted.role}"
            _check(role, given, math.prod(wanted.shape), wanted.dtype)
            _check_beginning(role, given, layer)


def _check(role: str, operand: Any, elements: int, dtype: np.dtype[Any]) -> None:
    if operand.dtype != dtype:
        wanted = "bfloat16 (uint16)" if dtype == BFLOAT16 else str(dtype)
        raise ConfigError(f"{role} {operand.name!r} is {operand.dtype}, not {wanted}")
    if operand.nbytes < dtype.itemsize * elements:
        raise ConfigError(
            f"{role} {operand.name!r} has {operand.nbytes} bytes, "
            f"its sizes need {dtype.itemsize * elements}"
        )


def _check_beginning(role: str, operand: Any, key: Product | Layer) -> None:
    if key.alignment > 4 and operand.address % key.alignment:  # float32 may begin at any element
        raise ConfigError(
            f"{role} {operand.name!r} begins at {operand.address:#x}, which is no multiple of "
            f"{key.alignment} bytes as a product in {key.precision} needs: take a slice of its own "
            "for it, or compute in fp32"
        )
