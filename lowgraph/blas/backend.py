"""What a matrix product is, and what a backend does with one."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from lowgraph.blas.epilogue import Epilogue
from lowgraph.errors import ConfigError
from lowgraph.integers import integer
from lowgraph.memory import Slice
from lowgraph.precision import BFLOAT16, Precision

__all__ = ["Backend", "Product", "Tensor"]

_FLOAT32 = np.dtype(np.float32)


class Tensor(NamedTuple):
    """What a call takes: its name there, shape and dtype."""

    role: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Product(NamedTuple):
    """One product out[m,n] (+)= op(a)[m,k] op(b)[k,n]: its sizes and which operand is transposed.

    trans_a: `a` is stored [k,m]. trans_b: `b` is stored [n,k]. Not both. accumulate: added to out.
    precision: of the operands; sums are float32. narrow: out is bfloat16 and not float32, for
    bfloat16 operands only and not with accumulate, which would round the sum at every addition.
    """

    m: int
    n: int
    k: int
    trans_a: bool = False
    trans_b: bool = False
    accumulate: bool = False
    precision: Precision = Precision.FP32
    narrow: bool = False

    def check(self) -> Product:
        """Return it. Raises ConfigError for sizes or flags that cannot be."""
        if min(self.m, self.n, self.k) < 1:
            sizes = f"m={self.m}, n={self.n}, k={self.k}"
            raise ConfigError(f"gemm of {sizes}: each must be at least 1")
        if self.trans_a and self.trans_b:
            raise ConfigError("gemm: one operand can be transposed, not both")
        if self.narrow and self.precision is not Precision.BF16:
            raise ConfigError(
                f"gemm: out is bfloat16 and the operands are {self.precision}: give float32 memory "
                "for out, or bfloat16 operands and precision=Precision.BF16"
            )
        if self.narrow and self.accumulate:
            raise ConfigError("gemm: only a float32 out can be added to, and this one is bfloat16")
        return self

    def plain(self) -> Product:
        """It in Python's own types: it is a key, and every later call compares with it.

        Raises ConfigError for a size that is no integer.
        """
        m, n, k, trans_a, trans_b, accumulate, precision, narrow = self
        flags = bool(trans_a), bool(trans_b), bool(accumulate)
        m, n, k = integer(m, "gemm: m"), integer(n, "gemm: n"), integer(k, "gemm: k")
        return Product(m, n, k, *flags, Precision(precision), bool(narrow))

    def tensors(self) -> list[Tensor]:
        """What a call of it takes, in order."""
        m, n, k = self[:3]
        operand = self.precision.operand
        return [
            Tensor("out", (m * n,), self.out_dtype),
            Tensor("a", (m * k,), operand),
            Tensor("b", (k * n,), operand),
        ]

    @property
    def out_dtype(self) -> np.dtype[Any]:
        """The dtype of out; `precision.operand` is that of a and b."""
        return BFLOAT16 if self.narrow else _FLOAT32

    @property
    def alignment(self) -> int:
        """Bytes that out, a and b must begin at a multiple of.

        One element in float32, which costs nothing (decision 4); else what the loads of the
        tensor cores want.
        """
        return 4 if self.precision is Precision.FP32 else 16

    def as_call(self) -> str:
        """The product as it is written in a `prepare` call."""
        names = "trans_a", "trans_b", "accumulate", "narrow"
        flags = [f"{name}=True" for name in names if getattr(self, name)]
        if self.precision is not Precision.FP32:
            flags.append(f"precision=Precision.{self.precision.name}")
        return f"Product({', '.join([str(self.m), str(self.n), str(self.k), *flags])})"


class Backend(Protocol):
    """What `Blas` needs of a backend. A plan is what it fixes for one product, once.

    Attributes: title (for the header line of a run).
    """

    title: str

    def plan(
        self, product: Product, workspace_bytes: int, epilogue: Epilogue = Epilogue.NONE
    ) -> Any:
        """Choose how to run a product and its epilogue; outside windows."""

    def run(
        self,
        plan: Any,
        stream: int,
        workspace: Slice,
        out: Any,
        a: Any,
        b: Any,
        extras: tuple[Any, ...] = (),
        before: Any = None,
    ) -> None:
        """Enqueue the product on `stream`.

        extras: what the epilogue uses beside. before: what is added to, with accumulate, in place
        of what `out` holds; as large as out.
        """

    def describe(self, plan: Any) -> str:
        """How the product is run, in one line."""

    def drop(self, plan: Any) -> None:
        """Free what the plan holds; it is not run again."""

    def close(self) -> None:
        """Drop what the backend holds beside workspaces and plans."""
