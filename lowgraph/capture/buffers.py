"""What a recorded graph does with memory: the buffers that it holds, and which of them it writes.

A kernel of ours tells by its signature what it only reads (`const`); copies and fills tell by their
parameters. Whether a library's kernels write what they were given is not known.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowgraph.capture.node_params import Contents
from lowgraph.driver.node import CopyParams, FillParams
from lowgraph.memory import PersistentPool, readable

__all__ = ["HeldBuffer", "MemoryUses", "held_buffers", "uses_of"]

# Nodes that touch no device memory, and those whose addresses are known.
_KNOWN = frozenset({"kernel", "memset", "memcpy", "empty", "host", "event_record", "wait_event"})
_DEVICE = "device"


@dataclass(frozen=True)
class MemoryUses:
    """Addresses that a recording's nodes were given.

    read: only read. written: perhaps read as well. unknown: by a library's kernels. complete: False
    where other nodes may use other addresses.
    """

    read: frozenset[int]
    written: frozenset[int]
    unknown: frozenset[int]
    complete: bool

    def may_write(self, pool: PersistentPool, address: int) -> bool:
        """Whether a node may write the memory at `address`.

        A node that was given another address in the same block of the pool may: one kernel updates
        a whole arena.
        """
        block = pool.who_owns(address)
        given = map(pool.who_owns, self.written | self.unknown)
        return not self.complete or any(owner is block for owner in given)


@dataclass(frozen=True)
class HeldBuffer:
    """A block of the pool that a graph holds until it is closed.

    name: of its latest slice. nbytes: aligned. alive: not given back by the user.
    role: "temporary" (taken in the body), "workspace" (borrowed from a library), or of memory taken
    outside "input" (only read), "written" (perhaps read as well), "unknown" (a library's kernels
    use it).
    """

    name: str
    nbytes: int
    role: str
    address: int
    alive: bool

    def __str__(self) -> str:
        """Return "input 'x' 4.00 KiB at 0x..., given back"."""
        ended = "" if self.alive or self.role == "temporary" else ", given back"
        return f"{self.role} {self.name!r} {readable(self.nbytes)} at {self.address:#x}{ended}"


def uses_of(contents: Contents) -> MemoryUses:
    """Ask a recorded graph and its journal; a driver call or two a node."""
    journal = contents.journal
    read, written = set[int](), set[int]()
    for launch in journal.launches:
        params = () if launch.signature is None else launch.signature.params
        const = {param.name: param.const for param in params}
        for name, address in launch.pointers:
            (read if const[name] else written).add(address)
    for index, kind in enumerate(contents.kinds):
        if kind in ("memset", "memcpy"):
            _add_transfer(contents.record(index).params, read, written)
    unknown = {address for call in journal.library for address in call.addresses}
    ours = all(launch.signature is not None for launch in journal.launches)
    kernels = contents.kinds.count("kernel") == journal.kernel_launches
    complete = ours and kernels and _KNOWN.issuperset(contents.kinds)
    return MemoryUses(frozenset(read), frozenset(written), frozenset(unknown), complete)


def held_buffers(pool: PersistentPool, owner: object, contents: Contents) -> tuple[HeldBuffer, ...]:
    """The blocks that `owner` holds, the largest first."""
    uses = uses_of(contents)
    found = []
    for piece, address, nbytes in pool.held_by(owner):
        if piece.owner is not None:
            role = "temporary"
        elif pool.is_exclusive(piece):
            role = "workspace"
        else:
            role = _role(uses, address, address + nbytes)
        found.append(HeldBuffer(piece.name, nbytes, role, address, piece.alive))
    return tuple(sorted(found, key=lambda buffer: (-buffer.nbytes, buffer.address)))


def _add_transfer(params: object, read: set[int], written: set[int]) -> None:
    if isinstance(params, FillParams):
        written.add(params.address)
    elif isinstance(params, CopyParams):
        source, to = params.direction.split(" to ")
        read |= {params.source} if source == _DEVICE else set()
        written |= {params.to} if to == _DEVICE else set()


def _role(uses: MemoryUses, begin: int, end: int) -> str:
    for role, addresses in (("written", uses.written), ("unknown", uses.unknown)):
        if any(begin <= address < end for address in addresses):
            return role
    return "input"
