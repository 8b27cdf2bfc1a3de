"""The products of a GPU: cublasLt through nvmath.bindings, one call with everything prepared.

cublasLt keeps no stream and no workspace: both are arguments of each product. The factors alpha and
beta are read from host memory during the call, so a graph holds their values.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from lowgraph import driver
from lowgraph.blas.backend import Product
from lowgraph.blas.epilogue import Epilogue
from lowgraph.blas.lt_plan import NoAlgorithm, Plan, make_plan
from lowgraph.errors import CaptureFailed, ConfigError, LibraryError, LowgraphError
from lowgraph.memory import PersistentPool, Slice, open_window, top_owners

__all__ = ["CublasBackend"]

_CALL = "cublasLtMatmul"
_PLANNING = "cublasLtMatmulAlgoGetHeuristic"
_NO_EPILOGUE = (
    "; if this version has no such epilogue for these types and sizes, give the layer the route "
    "SEPARATE (lowgraph/blas/routes.py, or Blas(..., routes=...))"
)
# What cuBLAS also answers when it could not allocate: the device's memory belongs in the message.
_MAYBE_FULL = ("ALLOC_FAILED", "INVALID_VALUE", "INTERNAL_ERROR")


class CublasBackend:
    """One handle for all streams."""

    def __init__(self, pool: PersistentPool) -> None:
        """Make the handle. Raises ConfigError when the bindings are not installed."""
        self._pool = pool
        self._api = _load_cublas()
        self._factors = np.array([1.0, 0.0], np.float32)
        self._one = self._factors.ctypes.data
        self._zero = self._one + self._factors.itemsize
        self._handle = self._create()
        version = self._api.get_version()
        number = f"{version // 10000}.{version // 100 % 100}.{version % 100}"
        self.title = f"GEMM by cuBLASLt {number}"

    def plan(
        self, product: Product, workspace_bytes: int, epilogue: Epilogue = Epilogue.NONE
    ) -> Plan:
        """Descriptors, and the algorithm that the heuristic picks for the workspace's size."""
        beta = self._one if product.accumulate else self._zero
        try:
            return make_plan(self._api, self._handle, product, workspace_bytes, beta, epilogue)
        except (self._api.cuBLASLtError, NoAlgorithm) as error:
            raise self._failure(_PLANNING, product, epilogue, error) from error

    def run(
        self,
        plan: Plan,
        stream: int,
        workspace: Slice,
        out: Any,
        a: Any,
        b: Any,
        extras: tuple[Any, ...] = (),
        before: Any = None,
    ) -> None:
        """One library call; the running pass is told how many kernels it sent."""
        to, left, right, room = out.address, a.address, b.address, workspace.address
        start = to if before is None else before.address
        more = tuple(piece.address for piece in extras)
        nodes = _kernel_nodes(stream)
        try:
            plan.extras.put(more)
            self._api.matmul(
                self._handle, plan.operation, self._one, right, plan.of_b, left, plan.of_a,
                plan.beta, start, plan.of_out, to, plan.of_out, plan.at,
                room, workspace.nbytes, stream,
            )  # fmt: skip
        except self._api.cuBLASLtError as error:
            raise self._failure(_CALL, plan.product, plan.epilogue, error) from error
        _report(_CALL, stream, nodes, (to, left, right, room, start, *more))

    def describe(self, plan: Plan) -> str:
        """The epilogue, if there is one, and the algorithm that was picked."""
        epilogue = "" if plan.epilogue is Epilogue.NONE else f"epilogue {plan.epilogue.value}, "
        return epilogue + plan.algorithm.text()

    def drop(self, plan: Plan) -> None:
        """Destroy its descriptors; graphs do not need them."""
        plan.descriptors.close()

    def close(self) -> None:
        """Destroy the handle. Idempotent."""
        handle, self._handle = self._handle, 0
        if handle != 0:
            with open_window.LOCK:  # it frees what it has on the device
                self._api.destroy(handle)

    def _create(self) -> int:
        try:
            with open_window.LOCK:  # it allocates
                return int(self._api.create())
        except self._api.cuBLASLtError as error:
            raise LibraryError("cublasLtCreate", str(error), self._memory(error)) from error

    def _memory(self, error: Exception) -> str:
        if not any(status in str(error) for status in _MAYBE_FULL):
            return ""
        return f"cuBLAS answers so also when the device is full: {top_owners(self._pool)}"

    def _failure(
        self, call: str, product: Product, epilogue: Epilogue, error: Exception
    ) -> LowgraphError:
        what, status = f"m={product.m}, n={product.n}, k={product.k}", str(error)
        if epilogue is not Epilogue.NONE:
            what += f", epilogue={epilogue.value}"
            status += _NO_EPILOGUE if call == _PLANNING else ""
        failed = LibraryError(f"{call}({what})", status, self._memory(error))
        window = open_window.mine()
        if window is None:
            return failed
        reason = f"in the window of {window.label!r} {failed}"
        return open_window.refused(CaptureFailed(reason, open_window.requester()))


def _load_cublas() -> Any:
    try:
        return importlib.import_module("nvmath.bindings.cublasLt")
    except ImportError as error:
        extra = f"cuda{driver.compat.BINDINGS_MAJOR}"
        raise ConfigError(
            f"this device needs cuBLAS, and nvmath.bindings cannot be imported ({error}): "
            f"pip install 'lowgraph[{extra}]'"
        ) from error


def _kernel_nodes(stream: int) -> set[int] | None:
    """Kernel nodes of the stream's capture so far; None outside the calling thread's window."""
    if open_window.mine() is None:
        return None
    graph = driver.stream.capture_graph(stream)
    if graph is None:
        return None
    nodes = driver.graph.nodes(graph)
    return {node for node in nodes if driver.graph.node_type(node) == "kernel"}


def _report(name: str, stream: int, before: set[int] | None, addresses: tuple[int, ...]) -> None:
    """Tell the running pass how many kernels the library call sent."""
    recorder = open_window.recorder()
    if recorder is None:
        return
    after = _kernel_nodes(stream)
    count = len(after - before) if before is not None and after is not None else None
    recorder.library_call(name, count, addresses, stream=stream)
