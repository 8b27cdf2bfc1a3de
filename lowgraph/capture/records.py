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

    args: readable text. code: the CUresult. where: the user's file:line. body: number of the
    conditional body it went into, 0 for the graph itself, -1 for any in an unrecorded pass.
    stream: that it sends work to, None if it sends none or is a launch, which has a LaunchRecord.
    """

    index: int
    op: str
    args: str
    code: int
    where: str
    thread: str
    stage: str = ""
    body: int = 0
    stream: int | None = None

    def __str__(self) -> str:
        called = f"{self.op}({self.args})"
        return f"{self.where}: {called} answered {self.code}{within(self.stage)}"


@dataclass(slots=True, unsafe_hash=True)
class LaunchRecord:
    """One kernel launch, not to be changed: scalars and pointers (addresses) by name, in order.

    index: its place among the journal's calls. signature: the kernel's, None if not ours. sizes:
    grid, block, dynamic shared bytes. body: as of a Call. aside: it has no twin in the other kind
    of pass (steering a loop, a repetition of its body). reaches: of the pointers that were given
    as a slice or parts of one, by name, offset and bytes of each.
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
    body: int = 0
    aside: bool = False
    reaches: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = ()


@dataclass(frozen=True)
class LibraryCall:
    """A call of a foreign library. kernels: kernel nodes it added, None if not known.

    addresses: device memory that its kernels use. scalars: its arguments by value, by name.
    nodes: handles of all nodes that it added, () where that is not known. body: as of a Call.
    stream: that it was given, from which it may fork.
    """

    name: str
    kernels: int | None
    addresses: tuple[int, ...]
    where: str
    stage: str = ""
    scalars: tuple[tuple[str, Any], ...] = ()
    nodes: tuple[int, ...] = ()
    body: int = 0
    stream: int | None = None


@dataclass(frozen=True)
class Sized:
    """What a pass asked for beside its launches, by size. after: launches before it.

    kind: "slice" of the pool (sizes: bytes), "product" (m, n, k and flags), "call" of a foreign
    library (sizes: its name; its kernels' are not known). address: of a slice, 0 for others.
    """

    kind: str
    name: str
    sizes: tuple[object, ...]
    where: str
    after: int
    address: int = 0
