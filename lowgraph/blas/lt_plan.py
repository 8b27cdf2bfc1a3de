"""What cublasLt is to do for one product: its descriptors, and an algorithm that stays.

All of it is made outside windows, by one call of the heuristic a product; a product is run by
addresses alone. Sums are float32, and TF32 is used where the product asks for it only.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from lowgraph.blas.backend import Product
from lowgraph.blas.epilogue import Epilogue, Extras, set_attribute
from lowgraph.memory import readable
from lowgraph.precision import Precision

__all__ = ["Algorithm", "NoAlgorithm", "Plan", "make_plan"]

_REAL_32F = 0  # CUDA_R_32F: also of alpha and beta
_REAL_16BF = 14  # CUDA_R_16BF
_COMPUTE_32F = 68  # CUBLAS_COMPUTE_32F
_COMPUTE_32F_FAST_TF32 = 77  # CUBLAS_COMPUTE_32F_FAST_TF32
_OPERANDS = "ABCD"


class NoAlgorithm(Exception):
    """The heuristic found none that runs in the workspace."""


class Algorithm(NamedTuple):
    """What the heuristic picked, in cublasLt's own numbers; workspace: bytes that it needs."""

    number: int
    tile: str
    stages: int
    split_k: int
    reduction: int
    workspace: int

    def text(self) -> str:
        """In one line."""
        return (
            f"algorithm {self.number}, tile {self.tile}, stages {self.stages}, "
            f"split-K {self.split_k}, reduction {self.reduction}, "
            f"workspace {readable(self.workspace)}"
        )


class Plan(NamedTuple):
    """The arguments of cublasLtMatmul that do not change, in its order where it has one.

    of_b, of_a, of_out: layouts. beta, at: addresses of beta and of the algorithm in `chosen`.
    extras: what is set before each call.
    """

    product: Product
    epilogue: Epilogue
    extras: Extras
    operation: int
    of_b: int
    of_a: int
    beta: int
    of_out: int
    at: int
    chosen: Any  # NumPy array of one cublasLtMatmulHeuristicResult_t: `at` points into it
    algorithm: Algorithm
    descriptors: ExitStack  # destroys them when closed


def make_plan(
    api: Any,
    handle: int,
    product: Product,
    workspace_bytes: int,
    beta: int,
    epilogue: Epilogue = Epilogue.NONE,
) -> Plan:
    """Make the descriptors and have the algorithm picked.

    beta: address of the factor of what is added to. Raises the bindings' error, or NoAlgorithm;
    nothing is left then.
    """
    m, n, k = product[:3]
    with ExitStack() as made:
        operation = _operation(api, made, product)
        kind = _REAL_16BF if product.precision is Precision.BF16 else _REAL_32F
        of_a = _layout(api, made, kind, *((k, m) if product.trans_a else (m, k)))
        of_b = _layout(api, made, kind, *((n, k) if product.trans_b else (k, n)))
        out_kind = _REAL_16BF if product.narrow else _REAL_32F
        of_out = _layout(api, made, out_kind, m, n)
        extras = Extras(api, operation, epilogue, out_kind, n)
        descriptors = operation, of_b, of_a, of_out, of_out
        chosen = _choose(api, handle, descriptors, _wishes(api, product, workspace_bytes))
        at = chosen.ctypes.data  # the algorithm is the structure's first field
        algorithm = _read(api, at, int(chosen["workspace_size"][0]))
        kept = made.pop_all()
    fixed = operation, of_b, of_a, beta, of_out, at, chosen, algorithm
    return Plan(product, epilogue, extras, *fixed, kept)


def _operation(api: Any, made: ExitStack, product: Product) -> int:
    # cuBLAS is column-major: there the row-major product is out^T = op(b)^T op(a)^T.
    tf32 = product.precision is Precision.TF32
    compute = _COMPUTE_32F_FAST_TF32 if tf32 else _COMPUTE_32F
    operation: int = api.matmul_desc_create(compute, _REAL_32F)
    made.callback(api.matmul_desc_destroy, operation)
    set_attribute(api, operation, "TRANSA", product.trans_b)
    set_attribute(api, operation, "TRANSB", product.trans_a)
    return operation


def _layout(api: Any, made: ExitStack, kind: int, rows: int, columns: int) -> int:
    """The layout of a matrix that is stored row-major [rows, columns]; kind: cudaDataType."""
    layout: int = api.matrix_layout_create(kind, columns, rows, columns)
    made.callback(api.matrix_layout_destroy, layout)
    return layout


def _choose(
    api: Any, handle: int, descriptors: tuple[int, ...], wishes: list[tuple[int, int]]
) -> Any:
    """The heuristic's first answer."""
    chosen = np.zeros(1, api.matmul_heuristic_result_dtype)
    count = np.zeros(1, np.int32)
    preference = api.matmul_preference_create()
    try:
        for attribute, value in wishes:
            given = np.array([value], api.get_matmul_preference_attribute_dtype(attribute))
            api.matmul_preference_set_attribute(
                preference, attribute, given.ctypes.data, given.nbytes
            )
        answer = chosen.ctypes.data, count.ctypes.data
        api.matmul_algo_get_heuristic(handle, *descriptors, preference, 1, *answer)
    finally:
        api.matmul_preference_destroy(preference)
    if count[0] == 0 or chosen["state"][0] != 0:
        room = dict(wishes)[api.MatmulPreferenceAttribute.MAX_WORKSPACE_BYTES]
        raise NoAlgorithm(f"no algorithm runs in a workspace of {room} bytes")
    return chosen


def _wishes(api: Any, product: Product, workspace_bytes: int) -> list[tuple[int, int]]:
    """What the algorithm must keep to, by attribute of the preference."""
    attributes, schemes = api.MatmulPreferenceAttribute, api.ReductionScheme
    # Not INPLACE: it counts in the workspace, which has to be cleared before each call, and adds
    # the parts in `out` itself. OUTPUT_TYPE would round the parts of a bfloat16 `out`.
    reductions = schemes.COMPUTE_TYPE | (0 if product.narrow else schemes.OUTPUT_TYPE)
    alignments = [
        (attributes[f"MIN_ALIGNMENT_{name}_BYTES"], product.alignment) for name in _OPERANDS
    ]
    return [
        (attributes.MAX_WORKSPACE_BYTES, workspace_bytes),
        (attributes.REDUCTION_SCHEME_MASK, reductions),
        *alignments,
    ]


def _read(api: Any, at: int, workspace: int) -> Algorithm:
    """The configuration of the algorithm that lies at an address."""

    def value(name: str) -> int:
        attribute = api.MatmulAlgoConfigAttribute[name]
        found = np.zeros(1, api.get_matmul_algo_config_attribute_dtype(attribute))
        written = np.zeros(1, np.uint64)
        api.matmul_algo_config_get_attribute(
            at, attribute, found.ctypes.data, found.nbytes, written.ctypes.data
        )
        return int(found[0])

    return Algorithm(
        value("ID"),
        _tile_name(api, value("TILE_ID")),
        value("STAGES_ID"),
        value("SPLITK_NUM"),
        value("REDUCTION_SCHEME"),
        workspace,
    )


def _tile_name(api: Any, tile: int) -> str:
    try:
        name: str = api.MatmulTile(tile).name
    except ValueError:  # the library is newer than its bindings
        return f"number {tile}"
    return name.removeprefix("TILE_").lower()
