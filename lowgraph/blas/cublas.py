"""The products of a GPU: cuBLAS through nvmath.bindings, CUBLAS_COMPUTE_32F, so no TF32."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import numpy as np

from lowgraph import driver
from lowgraph.blas.backend import Product
from lowgraph.errors import CaptureFailed, ConfigError, LibraryError, LowgraphError
from lowgraph.memory import PersistentPool, Slice, open_window, top_owners

__all__ = ["CublasBackend"]

_REAL_32F = 0  # CUDA_R_32F
_CALL = "cublasGemmEx"
# What cuBLAS also answers when it could not allocate: the device's memory belongs in the message.
_MAYBE_FULL = ("ALLOC_FAILED", "INVALID_VALUE", "INTERNAL_ERROR")


class _Plan(NamedTuple):
    product: Product
    head: tuple[int, ...]  # operations, sizes in column-major order, the address of 1.0
    strides: tuple[int, int, int]  # of b, a and out
    beta: int


class CublasBackend:
    """One handle. It is set to a stream and its workspace together, whenever either changes."""

    def __init__(self, pool: PersistentPool) -> None:
        """Make the handle. Raises ConfigError when the bindings are not installed."""
        self._pool = pool
        self._api = _load_cublas()
        self._scalars = np.array([1.0, 0.0], np.float32)
        self._one = self._scalars.ctypes.data
        self._zero = self._one + 4
        self._kind = int(self._api.ComputeType.COMPUTE_32F), int(self._api.GemmAlgo.DEFAULT)
        self._handle: int | None = self._create()
        self._api.set_pointer_mode(self._handle, int(self._api.PointerMode.HOST))
        self._stream: int | None = None
        version = self._api.get_version(self._handle)
        number = f"{version // 10000}.{version // 100 % 100}.{version % 100}"
        self.title = f"GEMM by cuBLAS {number} (float32, no TF32)"

    def plan(self, product: Product, workspace_bytes: int) -> _Plan:
        """The arguments that do not change; the heuristic takes the algorithm by shape."""
        m, n, k = product[:3]
        # cuBLAS is column-major: there the row-major product is out^T = op(b)^T op(a)^T.
        head = (int(product.trans_b), int(product.trans_a), n, m, k, self._one)
        strides = (k if product.trans_b else n, m if product.trans_a else k, n)
        return _Plan(product, head, strides, self._one if product.accumulate else self._zero)

    def run(self, plan: _Plan, stream: int, workspace: Slice, out: Any, a: Any, b: Any) -> None:
        """One library call; the running pass is told how many kernels it sent."""
        if stream != self._stream:
            self._use(stream, workspace)
        ld_b, ld_a, ld_out = plan.strides
        operands = (
            *plan.head, b.address, _REAL_32F, ld_b, a.address, _REAL_32F, ld_a,
            plan.beta, out.address, _REAL_32F, ld_out, *self._kind,
        )  # fmt: skip
        before = _kernel_nodes(stream)
        try:
            self._api.gemm_ex(self._handle, *operands)
        except self._api.cuBLASError as error:
            raise self._failure(plan.product, error) from error
        addresses = (out.address, a.address, b.address, workspace.address)
        _report(_CALL, stream, before, addresses)

    def forget(self) -> None:
        """Set stream and workspace anew at the next product."""
        self._stream = None

    def close(self) -> None:
        """Destroy the handle. Idempotent."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with open_window.LOCK:  # it waits for the device, which breaks any open capture
                self._api.destroy(handle)

    def _create(self) -> int:
        try:
            with open_window.LOCK:  # it allocates
                return int(self._api.create())
        except self._api.cuBLASError as error:
            raise LibraryError("cublasCreate", str(error), self._memory(error)) from error

    def _use(self, stream: int, workspace: Slice) -> None:
        # Setting the stream puts cuBLAS back to a workspace of its own, which it allocates.
        self._stream = None
        self._api.set_stream(self._handle, stream)
        self._api.set_workspace(self._handle, workspace.address, workspace.nbytes)
        self._stream = stream

    def _memory(self, error: Exception) -> str:
        if not any(status in str(error) for status in _MAYBE_FULL):
            return ""
        return f"cuBLAS answers so also when the device is full: {top_owners(self._pool)}"

    def _failure(self, product: Product, error: Exception) -> LowgraphError:
        call = f"{_CALL}(m={product.m}, n={product.n}, k={product.k})"
        failed = LibraryError(call, str(error), self._memory(error))
        window = open_window.mine()
        if window is None:
            return failed
        reason = f"in the window of {window.label!r} {failed}"
        return open_window.refused(CaptureFailed(reason, open_window.requester()))


def _load_cublas() -> Any:
    try:
        return importlib.import_module("nvmath.bindings.cublas")
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
    recorder.library_call(name, count, addresses)
