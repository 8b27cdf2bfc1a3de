"""A stand-in for nvmath.bindings.cublas: it records its calls, and fails as a full device would.

Products are done by gemm.cu, so that a capture records what it should. It allocates from the device
when a stream was set and no workspace after it, as cuBLAS does.
"""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lowgraph import driver
from lowgraph.driver import gate
from lowgraph.kernels import Library
from lowgraph.kernels import launch as kernel_launch


class cuBLASError(Exception):
    """What the bindings raise, its text the status."""


class ComputeType(enum.IntEnum):
    COMPUTE_32F = 68


class GemmAlgo(enum.IntEnum):
    DEFAULT = -1


class PointerMode(enum.IntEnum):
    HOST = 0


@contextmanager
def _unseen() -> Iterator[None]:
    """A library's own calls do not pass through lowgraph's gate."""
    hooks = gate.guard, gate.observer, kernel_launch.observer
    gate.guard = gate.observer = kernel_launch.observer = None
    try:
        yield
    finally:
        gate.guard, gate.observer, kernel_launch.observer = hooks


class FakeCublas:
    """The module. fail: status of the next gemm_ex or create, or ""."""

    cuBLASError = cuBLASError
    ComputeType = ComputeType
    GemmAlgo = GemmAlgo
    PointerMode = PointerMode

    def __init__(self, library: Library) -> None:
        names = {(0, 0): "gemm_nn", (1, 0): "gemm_nt", (0, 1): "gemm_tn"}
        self._kernels = {key: library.kernel("gemm.cu", name) for key, name in names.items()}
        self.calls: list[str] = []
        self.fail = ""
        self.stream = 0
        self.workspace: tuple[int, int] | None = None

    def create(self) -> int:
        self._called("create")
        return 0x1234

    def destroy(self, handle: int) -> None:
        self._called("destroy")

    def get_version(self, handle: int) -> int:
        return 130100

    def set_pointer_mode(self, handle: int, mode: int) -> None:
        self._called("set_pointer_mode")

    def set_stream(self, handle: int, stream: int) -> None:
        self._called("set_stream")
        self.stream, self.workspace = stream, None

    def set_workspace(self, handle: int, address: int, nbytes: int) -> None:
        self._called("set_workspace")
        self.workspace = address, nbytes

    def gemm_ex(self, handle: int, *operands: Any) -> None:
        self._called("gemm_ex")
        with _unseen():
            self._gemm(operands)

    def _gemm(self, operands: tuple[Any, ...]) -> None:
        if self.workspace is None:
            driver.memory.alloc(1 << 20)
        trans_b, trans_a, n, m, k, _, b, _, _, a, _, _, beta, out = operands[:14]
        accumulate = int(ctypes.c_float.from_address(beta).value)
        grid = (-(-n // 64), -(-m // 64), 1)
        kernel = self._kernels[trans_b, trans_a]
        kernel(self.stream, grid, 64, out, a, b, m, n, k, k, accumulate)

    def _called(self, name: str) -> None:
        self.calls.append(name)
        status, failing = self.fail, self.fail and name in ("gemm_ex", "create")
        if failing:
            self.fail = ""
            raise cuBLASError(status)
