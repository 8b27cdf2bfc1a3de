"""The products of the host device: kernels_cu/gemm.cu, with split-K in the borrowed workspace."""

from __future__ import annotations

from typing import Any, NamedTuple

from lowgraph.blas.backend import Product
from lowgraph.blas.epilogue import Epilogue
from lowgraph.errors import ConfigError
from lowgraph.kernels import Kernel, Library
from lowgraph.memory import Slice
from lowgraph.precision import Precision

__all__ = ["KernelBackend", "split_k"]

_TILE = 64  # gemm.cu: rows and columns of the product that a block computes
_DEPTH = 64  # gemm.cu: k of one pass of a block; a chunk that is no multiple of it runs a short one
_REDUCE_PER_BLOCK = 512  # gemm.cu: outputs that a block of gemm_reduce sums
_ENOUGH_BLOCKS = 4  # below that, split k: cores of the machines that the host device is for
_SHORTEST_CHUNK = 128  # of k: below that a slab's traffic costs more than its products


def split_k(m: int, n: int, k: int, workspace: int) -> tuple[int, int]:
    """(slabs, k of each) for gemm.cu: more than one slab when the product has few tiles.

    A slab is a partial product [m,n] in the workspace (bytes); its k is a multiple of 64, but for
    the last one's. The choice depends on the sizes alone, so that the order of addition is the same
    on every machine.
    """
    tiles = -(-m // _TILE) * -(-n // _TILE)
    wanted = min(-(-_ENOUGH_BLOCKS // tiles), k // _SHORTEST_CHUNK, workspace // (4 * m * n))
    if wanted < 2:
        return 1, k
    chunk = -(-k // (wanted * _DEPTH)) * _DEPTH
    return -(-k // chunk), chunk


class _Plan(NamedTuple):
    product: Product
    kernel: Kernel
    reduce: Kernel
    grid: tuple[int, int, int]
    slabs: int
    chunk: int


class KernelBackend:
    """gemm.cu."""

    title = "GEMM by kernels_cu/gemm.cu"

    def __init__(self, library: Library) -> None:
        """Load the four kernels of a float32 product; the others when they are planned."""
        self._library = library
        for name in ("gemm_nn", "gemm_nt", "gemm_tn", "gemm_reduce"):
            self._load(name, Precision.FP32, narrow=False)

    def plan(
        self, product: Product, workspace_bytes: int, epilogue: Epilogue = Epilogue.NONE
    ) -> _Plan:
        """Kernels, grid and slabs. Raises ConfigError for an epilogue: gemm.cu has none."""
        if epilogue is not Epilogue.NONE:
            raise ConfigError(
                f"gemm.cu has no epilogue {epilogue.value}: route LIBRARY needs cuBLASLt, take "
                "SEPARATE or OWN"
            )
        m, n, k = product[:3]
        slabs, chunk = split_k(m, n, k, workspace_bytes)
        name = "gemm_tn" if product.trans_a else "gemm_nt" if product.trans_b else "gemm_nn"
        # Slabs are float32; the kernel that sums them rounds.
        kernel = self._load(name, product.precision, narrow=product.narrow and slabs == 1)
        reduce = self._load("gemm_reduce", product.precision, narrow=product.narrow)
        grid = -(-n // _TILE), -(-m // _TILE), slabs
        return _Plan(product, kernel, reduce, grid, slabs, chunk)

    def run(
        self,
        plan: _Plan,
        stream: int,
        workspace: Slice,
        out: Any,
        a: Any,
        b: Any,
        extras: tuple[Any, ...] = (),
        before: Any = None,
    ) -> None:
        """One launch, or two with split-K. There are no extras without an epilogue."""
        product, kernel, reduce, grid, slabs, chunk = plan
        m, n, k = product[:3]
        accumulate = int(product.accumulate)
        if slabs == 1:
            kernel(stream, grid, 64, out, a, b, m, n, k, chunk, accumulate)
            return
        partial = workspace.address
        kernel(stream, grid, 64, partial, a, b, m, n, k, chunk, 0)
        blocks = -(-m * n // _REDUCE_PER_BLOCK)
        reduce(stream, blocks, 128, out, partial, m * n, slabs, accumulate)

    def describe(self, plan: _Plan) -> str:
        """Kernel and slabs."""
        return f"{plan.kernel.name}, split-K {plan.slabs}, k of a slab {plan.chunk}"

    def drop(self, plan: _Plan) -> None:
        """Nothing to free."""

    def close(self) -> None:
        """Nothing to drop: modules stay loaded."""

    def _load(self, name: str, precision: Precision, *, narrow: bool) -> Kernel:
        out = Precision.BF16 if narrow else Precision.FP32
        defines = {"act_t": precision.ctype, "out_t": out.ctype}
        if precision is Precision.TF32:
            defines["ROUND_TF32"] = "1"
        return self._library.kernel("gemm.cu", name, defines)
