"""Matrix products in float32: cuBLAS on a GPU, kernels_cu/gemm.cu on the host device.

The backend is `device.blas_backend`, picked once; there is no fallback from one to the other. Both
work in one preallocated workspace: cuBLAS would otherwise allocate in a capture, and its size is
among what decides which of its kernels run. Matrices are row-major.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

import numpy as np

from lowgraph import driver
from lowgraph.errors import CaptureFailed, ConfigError, LowgraphError
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, Slice, open_window, readable

__all__ = ["Blas", "Product", "split_k", "workspace_bytes"]

_MIB = 1 << 20
_TILE = 64  # gemm.cu: rows and columns of the product that a block computes
_REDUCE_PER_BLOCK = 512  # gemm.cu: outputs that a block of gemm_reduce sums
_ENOUGH_BLOCKS = 4  # below that, split k: cores of the machines that the host device is for
_SHORTEST_CHUNK = 128  # of k: below that a slab's traffic costs more than its products


class Product:
    """One product out[m,n] (+)= op(a)[m,k] op(b)[k,n]: its sizes and which operand is transposed.

    trans_a: `a` is stored [k,m]. trans_b: `b` is stored [n,k]. Not both.
    """

    __slots__ = ("accumulate", "k", "m", "n", "trans_a", "trans_b")

    def __init__(
        self, m: int, n: int, k: int, trans_a: bool, trans_b: bool, accumulate: bool
    ) -> None:
        """Check and keep the sizes. Raises ConfigError."""
        if min(m, n, k) < 1:
            raise ConfigError(f"gemm of m={m}, n={n}, k={k}: each must be at least 1")
        if trans_a and trans_b:
            raise ConfigError("gemm: one operand can be transposed, not both")
        self.m, self.n, self.k = m, n, k
        self.trans_a, self.trans_b, self.accumulate = trans_a, trans_b, accumulate


class _Backend(Protocol):
    title: str

    def gemm(self, stream: int, product: Product, out: Any, a: Any, b: Any) -> None: ...

    def close(self) -> None: ...


def workspace_bytes(compute_capability: tuple[int, int]) -> int:
    """32 MiB from compute capability 9.0 on, as NVIDIA advises for Hopper; else 8 MiB."""
    return 32 * _MIB if compute_capability >= (9, 0) else 8 * _MIB


def split_k(m: int, n: int, k: int, workspace: int) -> tuple[int, int]:
    """(slabs, k of each) for gemm.cu: more than one slab when the product has few tiles.

    A slab is a partial product [m,n] in the workspace (bytes). The choice depends on the sizes
    alone, so that the order of addition is the same on every machine.
    """
    tiles = -(-m // _TILE) * -(-n // _TILE)
    wanted = min(-(-_ENOUGH_BLOCKS // tiles), k // _SHORTEST_CHUNK, workspace // (4 * m * n))
    if wanted < 2:
        return 1, k
    chunk = -(-k // wanted)
    return -(-k // chunk), chunk


class Blas:
    """Products on one stream's workspace.

    Attributes: backend ("cublas" or "kernel"), workspace (the slice, borrowed by every graph that
    uses it).
    """

    def __init__(
        self, device: driver.Device, library: Library, stream: int, pool: PersistentPool
    ) -> None:
        """Take the workspace and make the handle ready for `stream`, outside any window.

        Raises ConfigError when the device wants cuBLAS and its bindings are not installed.
        """
        window = open_window.mine()
        if window is not None:
            raise ConfigError(f"Blas was made in the window of {window.label!r}: make it before")
        self.backend = device.blas_backend
        self._pool = pool
        nbytes = workspace_bytes(device.compute_capability)
        self.workspace = pool.take("blas workspace", nbytes, np.uint8)
        try:
            self._backend: _Backend = (
                _Cublas(self.workspace, stream)
                if self.backend == "cublas"
                else _Kernels(library, self.workspace)
            )
        except BaseException:
            pool.give_back(self.workspace)
            raise

    def describe(self) -> str:
        """The header line of a run: backend, precision, workspace."""
        return f"{self._backend.title}, workspace {readable(self.workspace.nbytes)}"

    def gemm(
        self,
        stream: int,
        out: Slice,
        a: Slice,
        b: Slice,
        m: int,
        n: int,
        k: int,
        trans_a: bool = False,
        trans_b: bool = False,
        accumulate: bool = False,
    ) -> None:
        """out[m,n] = op(a)[m,k] op(b)[k,n], added to `out` with `accumulate`; row-major float32.

        trans_a: `a` is stored [k,m]; trans_b: `b` is stored [n,k]. Raises ConfigError for operands
        that are too small or not float32.
        """
        product = Product(m, n, k, trans_a, trans_b, accumulate)
        _check("out", out, m * n)
        _check("a", a, m * k)
        _check("b", b, k * n)
        self._backend.gemm(stream, product, out, a, b)

    def close(self) -> None:
        """Drop the handle and give the workspace back. Idempotent."""
        if self.workspace.alive:
            self._backend.close()
            self._pool.give_back(self.workspace)


def _check(role: str, operand: Any, elements: int) -> None:
    if operand.dtype != np.float32:
        raise ConfigError(f"gemm: {role} {operand.name!r} is {operand.dtype}, not float32")
    if operand.nbytes < 4 * elements:
        raise ConfigError(
            f"gemm: {role} {operand.name!r} has {operand.nbytes} bytes, "
            f"its sizes need {4 * elements}"
        )


class _Kernels:
    """gemm.cu, with split-K in the workspace."""

    title = "GEMM by kernels_cu/gemm.cu (float32)"

    def __init__(self, library: Library, workspace: Slice) -> None:
        self._workspace = workspace
        self._gemm = {
            (False, False): library.kernel("gemm.cu", "gemm_nn"),
            (False, True): library.kernel("gemm.cu", "gemm_nt"),
            (True, False): library.kernel("gemm.cu", "gemm_tn"),
        }
        self._reduce = library.kernel("gemm.cu", "gemm_reduce")

    def gemm(self, stream: int, product: Product, out: Any, a: Any, b: Any) -> None:
        m, n, k = product.m, product.n, product.k
        slabs, chunk = split_k(m, n, k, self._workspace.nbytes)
        kernel = self._gemm[product.trans_a, product.trans_b]
        grid = (-(-n // _TILE), -(-m // _TILE), slabs)
        if slabs == 1:
            kernel(stream, grid, 64, out, a, b, m, n, k, chunk, int(product.accumulate))
            return
        partial = self._workspace.address
        kernel(stream, grid, 64, partial, a, b, m, n, k, chunk, 0)
        blocks = -(-m * n // _REDUCE_PER_BLOCK)
        self._reduce(stream, blocks, 128, out, partial, m * n, slabs, int(product.accumulate))

    def close(self) -> None:
        """Nothing to drop: modules stay loaded."""


class _Cublas:
    """cuBLAS through nvmath.bindings: CUBLAS_COMPUTE_32F, so no TF32; scalars by host pointer."""

    _REAL_32F = 0  # CUDA_R_32F

    def __init__(self, workspace: Slice, stream: int) -> None:
        self._api = _load_cublas()
        self._workspace = workspace
        self._scalars = np.array([1.0, 0.0], np.float32)
        self._one = self._scalars.ctypes.data
        self._zero = self._one + 4
        self._compute = int(self._api.ComputeType.COMPUTE_32F)
        self._algorithm = int(self._api.GemmAlgo.DEFAULT)
        self._handle: int | None = int(self._api.create())
        self._api.set_pointer_mode(self._handle, int(self._api.PointerMode.HOST))
        self._stream: int | None = None
        self._use(stream)
        version = self._api.get_version(self._handle)
        number = f"{version // 10000}.{version // 100 % 100}.{version % 100}"
        self.title = f"GEMM by cuBLAS {number} (float32, no TF32)"

    def gemm(self, stream: int, product: Product, out: Any, a: Any, b: Any) -> None:
        if stream != self._stream:
            self._use(stream)
        m, n, k = product.m, product.n, product.k
        # cuBLAS is column-major: there the row-major product is out^T = op(b)^T op(a)^T.
        flags = (int(product.trans_b), int(product.trans_a))
        right = (b.address, self._REAL_32F, k if product.trans_b else n)
        left = (a.address, self._REAL_32F, m if product.trans_a else k)
        beta = self._one if product.accumulate else self._zero
        target = (out.address, self._REAL_32F, n)
        operands = (*flags, n, m, k, self._one, *right, *left, beta, *target)
        addresses = (out.address, a.address, b.address, self._workspace.address)
        before = _kernel_nodes(stream)
        try:
            self._api.gemm_ex(self._handle, *operands, self._compute, self._algorithm)
        except self._api.cuBLASError as error:
            raise _failure(f"cublasGemmEx(m={m}, n={n}, k={k})", error) from error
        _report("cublasGemmEx", stream, before, addresses)

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            self._api.destroy(handle)

    def _use(self, stream: int) -> None:
        # Setting the stream puts cuBLAS back to a workspace of its own, which it allocates.
        self._stream = None
        self._api.set_stream(self._handle, stream)
        self._api.set_workspace(self._handle, self._workspace.address, self._workspace.nbytes)
        self._stream = stream


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
    known = before is not None and after is not None
    count = len(after - before) if before is not None and after is not None else None
    recorder.library_call(name, count if known else None, addresses)


def _failure(call: str, error: Exception) -> LowgraphError:
    window = open_window.mine()
    if window is None:
        return LowgraphError(f"{call} failed: {error}")
    reason = f"{call} failed in the window of {window.label!r}: {error}"
    return open_window.refused(CaptureFailed(reason, open_window.requester()))
