"""Whether the memory that a product is given fits it."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowgraph.blas.backend import Product
from lowgraph.errors import ConfigError
from lowgraph.precision import BFLOAT16, Precision

__all__ = ["check_operands"]


def check_operands(product: Product, out: Any, a: Any, b: Any) -> None:
    """Raise ConfigError for the first of out, a and b whose dtype, size or address does not fit."""
    m, n, k = product[:3]
    operand = product.precision.operand
    _check("out", out, m * n, product.out_dtype)
    _check("a", a, m * k, operand)
    _check("b", b, k * n, operand)
    if product.precision is not Precision.FP32:  # float32 may begin at any element
        for role, given in (("out", out), ("a", a), ("b", b)):
            _check_beginning(role, given, product)


def _check(role: str, operand: Any, elements: int, dtype: np.dtype[Any]) -> None:
    if operand.dtype != dtype:
        wanted = "bfloat16 (uint16)" if dtype == BFLOAT16 else str(dtype)
        raise ConfigError(f"gemm: {role} {operand.name!r} is {operand.dtype}, not {wanted}")
    if operand.nbytes < dtype.itemsize * elements:
        raise ConfigError(
            f"gemm: {role} {operand.name!r} has {operand.nbytes} bytes, "
            f"its sizes need {dtype.itemsize * elements}"
        )


def _check_beginning(role: str, operand: Any, product: Product) -> None:
    if operand.address % product.alignment:
        raise ConfigError(
            f"gemm: {role} {operand.name!r} begins at {operand.address:#x}, which is no multiple "
            f"of {product.alignment} bytes as a product in {product.precision} needs: take a slice "
            "of its own for it, or compute in fp32"
        )
