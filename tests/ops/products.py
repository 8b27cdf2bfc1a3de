"""Launches of gemm.cu as its header says, for each of its types."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lowgraph.precision import bfloat16_bits
from tests.ops.compare import Array, Output, output
from tests.support.rig import Rig

LAYOUTS = ["nn", "nt", "tn"]


class Types(NamedTuple):
    """The types of a product's kernels: CUDA C names of operands and out, and TF32 rounding."""

    operand: str = "float"
    out: str = "float"
    tf32: bool = False

    def defines(self) -> dict[str, str]:
        rounding = {"ROUND_TF32": "1"} if self.tf32 else {}
        return {"act_t": self.operand, "out_t": self.out, **rounding}


FLOAT32 = Types()


def launch(
    rig: Rig,
    types: Types,
    layout: str,
    out: Output,
    a: int,
    b: int,
    k: int,
    *,
    accumulate: bool,
    chunk: int,
) -> None:
    """Multiply device matrices into out [m,n]; in slabs of `chunk` if that is below k."""
    m, n = out.shape
    splits = max(1, -(-k // chunk))
    grid = (-(-n // 64), -(-m // 64), splits)
    # Slabs are float32 whatever out is.
    slab = types if splits == 1 else types._replace(out="float")
    kernel = rig.library.kernel("gemm.cu", f"gemm_{layout}", slab.defines())
    if splits == 1:
        kernel(rig.stream, grid, 64, out, a, b, m, n, k, chunk, accumulate)
        return
    partial = output(rig, splits, m, n, name="partial")
    kernel(rig.stream, grid, 64, partial, a, b, m, n, k, chunk, 0)
    reduce = rig.library.kernel("gemm.cu", "gemm_reduce", types.defines())
    reduce(rig.stream, -(-m * n // 512), 128, out, partial, m * n, splits, accumulate)
    partial.get()


def run(
    rig: Rig,
    types: Types,
    layout: str,
    a: Array,
    b: Array,
    out: Output,
    *,
    accumulate: bool = False,
    chunk: int = 1000,
) -> None:
    """Multiply a [m,k] by b [k,n], float32, into out; stored as the layout says, in the type."""
    left, right = (a.T if layout == "tn" else a), (b.T if layout == "nt" else b)
    if types.operand != "float":
        left, right = bfloat16_bits(left), bfloat16_bits(right)
    first, second = (rig.put(np.ascontiguousarray(matrix)).address for matrix in (left, right))
    launch(rig, types, layout, out, first, second, a.shape[1], accumulate=accumulate, chunk=chunk)
