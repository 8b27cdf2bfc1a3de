"""What a journal writes down: a driver call, a kernel launch, a call of a foreign library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lowgraph.kernels.signature import Signature

__all__ = ["Call", "LaunchRecord", "LibraryCall"]


@dataclass(slots=True, unsafe_hash=True)  # a frozen one takes 1 us more to make, at every call
class Call:
    """One driver call, not to be changed.

    args: readable text. code: the CUresult. where: the user's file:line. body: number of the
    conditional body it went into, 0 for the graph itself, -1 for any in an unrecorded pass.
    """

    index: int
    op: str
    args: str
    code: int
    where: str
    thread: str
    body: int = 0

    def __str__(self) -> str:
        return f"{self.where}: {self.op}({self.args}) answered {self.code}"


@dataclass(slots=True, unsafe_hash=True)
class LaunchRecord:
    """One kernel launch, not to be changed: scalars and pointers (addresses) by name, in order.

    index: its place among the journal's calls. signature: the kernel's, None if not ours. sizes:
    grid, block, dynamic shared bytes. body: as of a Call. aside: it has no twin in the other kind
    of pass (steering a loop, a repetition of its body).
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
    body: int = 0
    aside: bool = False


@dataclass(frozen=True)
class LibraryCall:
    """A call of a foreign library. kernels: kernel nodes it added, None if not known.

    addresses: device memory that its kernels use.
    """

    name: str
    kernels: int | None
    addresses: tuple[int, ...]
    where: str
