"""What a matrix product is, and what a backend does with one."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from lowgraph.errors import ConfigError
from lowgraph.memory import Slice

__all__ = ["Backend", "Product"]


class Product(NamedTuple):
    """One product out[m,n] (+)= op(a)[m,k] op(b)[k,n]: its sizes and which operand is transposed.

    trans_a: `a` is stored [k,m]. trans_b: `b` is stored [n,k]. Not both. accumulate: added to out.
    """

    m: int
    n: int
    k: int
    trans_a: bool = False
    trans_b: bool = False
    accumulate: bool = False

    def check(self) -> Product:
        """Return it. Raises ConfigError for sizes or flags that cannot be."""
        if min(self.m, self.n, self.k) < 1:
            sizes = f"m={self.m}, n={self.n}, k={self.k}"
            raise ConfigError(f"gemm of {sizes}: each must be at least 1")
        if self.trans_a and self.trans_b:
            raise ConfigError("gemm: one operand can be transposed, not both")
        return self

    def as_call(self) -> str:
        """The product as it is written in a `prepare` call."""
        flags = [f"{name}=True" for name in self._fields[3:] if getattr(self, name)]
        return f"Product({', '.join([str(self.m), str(self.n), str(self.k), *flags])})"


class Backend(Protocol):
    """What `Blas` needs of a backend. A plan is what it fixes for one product, once.

    Attributes: title (for the header line of a run).
    """

    title: str

    def plan(self, product: Product, workspace_bytes: int) -> Any:
        """Choose how to run a product; outside windows."""

    def run(self, plan: Any, stream: int, workspace: Slice, out: Any, a: Any, b: Any) -> None:
        """Enqueue the product on `stream`."""

    def describe(self, plan: Any) -> str:
        """How the product is run, in one line."""

    def drop(self, plan: Any) -> None:
        """Free what the plan holds; it is not run again."""

    def close(self) -> None:
        """Drop what the backend holds beside workspaces and plans."""
