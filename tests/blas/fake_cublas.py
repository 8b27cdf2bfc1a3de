"""A stand-in for nvmath.bindings.cublasLt: it records its calls, and fails as a full device would.

Products are done by gemm.cu, so that a capture records what it should. Descriptors are what was set
in them, read from the addresses that the caller gave, and a destroyed one is not found.
"""

from __future__ import annotations

import ctypes
import enum
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from lowgraph.driver import gate
from lowgraph.kernels import Library
from lowgraph.kernels import launch as kernel_launch
from tests.blas.fake_epilogues import Epilogue, FakeEpilogues, NotSupported

NEED = 4096  # bytes of workspace that the fake's split-K algorithm asks for
MARK = 0x5EED  # in the algorithm's opaque words

_REAL_32F = 0  # CUDA_R_32F
# By CUBLAS_COMPUTE_32F and _32F_FAST_TF32, CUDA_R_32F and CUDA_R_16BF: the defines of gemm.cu.
_ROUNDING: dict[int, dict[str, str]] = {68: {}, 77: {"ROUND_TF32": "1"}}
_CTYPES = {_REAL_32F: "float", 14: "__nv_bfloat16"}
_FORMS = {(0, 0): "gemm_nn", (1, 0): "gemm_nt", (0, 1): "gemm_tn"}
_COMPUTE = -1  # beside the attributes of an operation: how it computes


class cuBLASLtError(Exception):
    """What the bindings raise, its text the status."""


class MatmulDescAttribute(enum.IntEnum):
    TRANSA = 3
    TRANSB = 4
    EPILOGUE = 7
    BIAS_POINTER = 8
    EPILOGUE_AUX_POINTER = 11
    EPILOGUE_AUX_LD = 12
    BIAS_DATA_TYPE = 26


_ADDRESSES = (
    MatmulDescAttribute.BIAS_POINTER,
    MatmulDescAttribute.EPILOGUE_AUX_POINTER,
    MatmulDescAttribute.EPILOGUE_AUX_LD,
)


class MatmulPreferenceAttribute(enum.IntEnum):
    MAX_WORKSPACE_BYTES = 1
    REDUCTION_SCHEME_MASK = 3
    MIN_ALIGNMENT_A_BYTES = 5
    MIN_ALIGNMENT_B_BYTES = 6
    MIN_ALIGNMENT_C_BYTES = 7
    MIN_ALIGNMENT_D_BYTES = 8


class MatmulAlgoConfigAttribute(enum.IntEnum):
    ID = 0
    TILE_ID = 1
    SPLITK_NUM = 2
    REDUCTION_SCHEME = 3
    STAGES_ID = 6


class ReductionScheme(enum.IntEnum):
    INPLACE = 1
    COMPUTE_TYPE = 2
    OUTPUT_TYPE = 4


class MatmulTile(enum.IntEnum):
    TILE_128x32 = 16


class Layout(NamedTuple):
    """A column-major matrix; kind: its elements' cudaDataType."""

    kind: int
    rows: int
    columns: int
    stride: int


ALGO = np.dtype([("data_", "<u8", (8,))])
RESULT = np.dtype(
    [("algo", ALGO), ("workspace_size", "<u8"), ("state", "<i4"), ("waves_count", "<f4"),
     ("reserved", "<i4", (4,))]
)  # fmt: skip


@contextmanager
def _unseen() -> Iterator[None]:
    """A library's own calls do not pass through lowgraph's gate."""
    hooks = gate.guard, gate.observer, kernel_launch.observer
    gate.guard = gate.observer = kernel_launch.observer = None
    try:
        yield
    finally:
        gate.guard, gate.observer, kernel_launch.observer = hooks


def _bytes_at(address: int, dtype: Any, count: int = 1) -> np.ndarray:
    nbytes = np.dtype(dtype).itemsize * count
    return np.frombuffer((ctypes.c_char * nbytes).from_address(address), dtype)


class FakeCublasLt:
    """The module. fail: (status, name of the call that gives it next). Of the heuristic's answer:
    found, state (0 for a valid one), tile (its number). lacks: epilogues that it does not know."""

    cuBLASLtError = cuBLASLtError
    MatmulDescAttribute = MatmulDescAttribute
    MatmulPreferenceAttribute = MatmulPreferenceAttribute
    MatmulAlgoConfigAttribute = MatmulAlgoConfigAttribute
    ReductionScheme = ReductionScheme
    MatmulTile = MatmulTile
    Epilogue = Epilogue
    matmul_heuristic_result_dtype = RESULT

    def __init__(self, library: Library) -> None:
        self.matmul_desc_destroy = self.matrix_layout_destroy = self._drop
        self.matmul_preference_destroy = self._drop
        self._library = library
        self._numbers = itertools.count(0x1000)
        self.calls: list[str] = []
        self.alive: dict[int, Any] = {}
        self.fail: tuple[str, str] | None = None
        self.found, self.state = 1, 0
        self.tile = int(MatmulTile.TILE_128x32)
        self.wishes: dict[int, int] = {}
        self.lacks: set[Epilogue] = set()
        self._epilogues = FakeEpilogues(library)
        self.last = SimpleNamespace()

    def create(self) -> int:
        return self._make("create", "handle")

    def destroy(self, handle: int) -> None:
        self._called("destroy")
        assert self.alive.pop(handle) == "handle"

    def get_version(self) -> int:
        return 130100

    def matmul_desc_create(self, compute: int, scale: int) -> int:
        assert compute in _ROUNDING and scale == _REAL_32F
        return self._make("matmul_desc_create", {_COMPUTE: compute})

    def matmul_desc_set_attribute(self, *given: int) -> None:
        self._set(*given, self.get_matmul_desc_attribute_dtype(given[1]))

    def matrix_layout_create(self, kind: int, rows: int, columns: int, stride: int) -> int:
        assert kind in _CTYPES
        return self._make("matrix_layout_create", Layout(kind, rows, columns, stride))

    def matmul_preference_create(self) -> int:
        return self._make("matmul_preference_create", {})

    def matmul_preference_set_attribute(self, *given: int) -> None:
        self._set(*given, self.get_matmul_preference_attribute_dtype(given[1]))

    def get_matmul_desc_attribute_dtype(self, attribute: int) -> type:
        return np.int64 if attribute in _ADDRESSES else np.int32

    def get_matmul_preference_attribute_dtype(self, attribute: int) -> type:
        workspace = MatmulPreferenceAttribute.MAX_WORKSPACE_BYTES
        return np.uint64 if attribute == workspace else np.uint32

    def get_matmul_algo_config_attribute_dtype(self, attribute: int) -> type:
        return np.uint32 if attribute in (1, 3, 6) else np.int32

    def matmul_algo_get_heuristic(
        self, handle: int, operation: int, of_a: int, of_b: int, of_c: int, of_d: int,
        preference: int, wanted: int, results: int, found: int,
    ) -> None:  # fmt: skip
        self._called("matmul_algo_get_heuristic")
        assert self.alive[handle] == "handle" and wanted == 1
        self._check_shapes(operation, of_a, of_b, of_c, of_d)
        types = self._types(operation, of_a, of_b, of_d)
        for name in _FORMS.values():  # loaded now: a window would refuse
            self._library.kernel("gemm.cu", name, types)
        self._check_epilogue(operation, of_a, of_d)
        self.wishes = self.alive[preference]
        room = self.wishes[MatmulPreferenceAttribute.MAX_WORKSPACE_BYTES]
        result = np.zeros(1, RESULT)
        result["algo"]["data_"][0, 0] = MARK
        result["state"] = self.state
        result["workspace_size"] = NEED if room >= NEED else 0
        ctypes.memmove(results, result.ctypes.data, RESULT.itemsize)
        ctypes.c_int32.from_address(found).value = self.found

    def matmul_algo_config_get_attribute(
        self, algorithm: int, attribute: int, buffer: int, nbytes: int, written: int
    ) -> None:
        dtype = self.get_matmul_algo_config_attribute_dtype(attribute)
        assert nbytes == np.dtype(dtype).itemsize and _bytes_at(algorithm, "<u8")[0] == MARK
        value = np.array([{0: 21, 1: self.tile, 2: 4, 3: 2, 6: 13}[attribute]], dtype)
        ctypes.memmove(buffer, value.ctypes.data, nbytes)
        ctypes.c_uint64.from_address(written).value = nbytes

    def matmul(
        self, handle: int, operation: int, alpha: int, a: int, of_a: int, b: int, of_b: int,
        beta: int, c: int, of_c: int, d: int, of_d: int, algorithm: int,
        workspace: int, workspace_bytes: int, stream: int,
    ) -> None:  # fmt: skip
        self._called("matmul")
        assert self.alive[handle] == "handle"
        assert ctypes.c_float.from_address(alpha).value == 1.0
        result = _bytes_at(algorithm, RESULT)
        assert result["algo"]["data_"][0, 0] == MARK
        assert workspace_bytes >= result["workspace_size"][0] and workspace % 256 == 0
        self.last = SimpleNamespace(
            stream=stream, workspace=(workspace, workspace_bytes), algorithm=algorithm
        )
        first, second, n, m, k = self._check_shapes(operation, of_a, of_b, of_c, of_d)
        accumulate = int(ctypes.c_float.from_address(beta).value)
        grid = (-(-n // 64), -(-m // 64), 1)
        kernel = self._library.kernel(
            "gemm.cu", _FORMS[first, second], self._types(operation, of_a, of_b, of_d)
        )
        self._check_epilogue(operation, of_a, of_d)
        with _unseen():
            if c != d and accumulate:
                self._epilogues.copy(stream, d, c, m * n)
            kernel(stream, grid, 64, d, b, a, m, n, k, k, accumulate)
            given = self.alive[operation]
            self._epilogues.run(
                Epilogue(given.get(MatmulDescAttribute.EPILOGUE, 1)), stream, workspace, d, b,
                given.get(MatmulDescAttribute.BIAS_POINTER, 0),
                given.get(MatmulDescAttribute.EPILOGUE_AUX_POINTER, 0), (m, n, k),
            )  # fmt: skip

    # ---- inside ----

    def _check_shapes(self, operation: int, *layouts: int) -> tuple[int, int, int, int, int]:
        """Both transpose flags, and m, n and k of the column-major product."""
        flags, (a, b, c, d) = self.alive[operation], (self.alive[layout] for layout in layouts)
        first, second = flags[MatmulDescAttribute.TRANSA], flags[MatmulDescAttribute.TRANSB]
        m, k = (a.columns, a.rows) if first else (a.rows, a.columns)
        k_too, n = (b.columns, b.rows) if second else (b.rows, b.columns)
        assert k == k_too and (m, n) == (c.rows, c.columns) == (d.rows, d.columns)
        assert all(layout.stride >= layout.rows for layout in (a, b, c, d))
        return first, second, m, n, k

    def _check_epilogue(self, operation: int, of_a: int, of_d: int) -> None:
        """What the library's manual asks of the attributes, and that it knows the epilogue."""
        given, out = self.alive[operation], self.alive[of_d]
        epilogue = Epilogue(given.get(MatmulDescAttribute.EPILOGUE, 1))
        try:
            if epilogue in self.lacks:
                raise NotSupported(epilogue.name)
            self._epilogues.check(
                epilogue, self.alive[of_a].kind, out.kind, out.rows,
                {attribute.name: given.get(attribute) for attribute in MatmulDescAttribute},
            )  # fmt: skip
        except NotSupported as error:
            raise cuBLASLtError(f"NOT_SUPPORTED (15) {error}") from error

    def _types(self, operation: int, *layouts: int) -> dict[str, str]:
        """The defines of gemm.cu for the types that were set."""
        a, b, out = (_CTYPES[self.alive[layout].kind] for layout in layouts)
        assert a == b, "operands of one type"
        return {"act_t": a, "out_t": out, **_ROUNDING[self.alive[operation][_COMPUTE]]}

    def _set(self, descriptor: int, attribute: int, buffer: int, nbytes: int, dtype: Any) -> None:
        assert nbytes == np.dtype(dtype).itemsize
        self.alive[descriptor][attribute] = int(_bytes_at(buffer, dtype)[0])

    def _make(self, name: str, what: Any) -> int:
        self._called(name)
        number = next(self._numbers)
        self.alive[number] = what
        return number

    def _drop(self, number: int) -> None:
        del self.alive[number]

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.fail is not None and self.fail[1] == name:
            status, self.fail = self.fail[0], None
            raise cuBLASLtError(status)
