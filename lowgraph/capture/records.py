"""What a journal writes down: driver calls, kernel launches, calls of libraries, sizes.

stage: of each the full name of the stage that it was made in, "" if in none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lowgraph.kernels.signature import Signature
from lowgraph.stages import within

__all__ = ["Call", "LaunchRecord", "LibraryCall", "Sized"]


@dataclass(slots=True, unsafe_hash=True)  # a frozen one takes 1 us more to make, at every call
class Call:
    """One driver call, not to be changed.

    args: readable text. code: the CUresult. where: the user's file:line.
    """

    index: int
    op: str
    args: str
    code: int
    where: str
    thread: str
    stage: str = ""

    def __str__(self) -> str:
        called = f"{self.op}({self.args})"
        return f"{self.where}: {called} answered {self.code}{within(self.stage)}"


@dataclass(slots=True, unsafe_hash=True)
class LaunchRecord:
    """One kernel launch, not to be changed: scalars and pointers (addresses) by name, in order.

    index: its place among the journal's calls. signature: the kernel's, None if not ours. sizes:
    grid, block, dynamic shared bytes.
    """

    index: int
    kernel: str
    function: int
    stream: int
    scalars: tuple[tuple[str, Any], ...]
    pointers: tuple[tuple[str, int], ...]
    where: str
    signature: Signature | None = None
    sizes: tuple[Any, ...] = ()
    stage: str = ""


@dataclass(frozen=True)
class LibraryCall:
    """A call of a foreign library. kernels: kernel nodes it added, None if not known.

    addresses: device memory that its kernels use.
    """

    name: str
    kernels: int | None
    addresses: tuple[int, ...]
    where: str
    stage: str = ""


@dataclass(frozen=True)
class Sized:
    """What a pass asked for beside its launches, by size. after: launches before it.

    kind: "slice" of the pool (sizes: bytes), "product" (m, n, k and flags), "call" of a foreign
    library (sizes: its name; its kernels' are not known).
    """

    kind: str
    name: str
    sizes: tuple[object, ...]
    where: str
    after: int
