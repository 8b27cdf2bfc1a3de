"""Where two snapshots differ, and which launch of the recorded step wrote there last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lowgraph.capture import Journal
from lowgraph.memory import Slice
from lowgraph.train.gates.subject import Snapshot, Subject, same_bits

__all__ = ["Difference", "Writer", "differences", "last_writer"]

_LATEST = 1 << 62


@dataclass(frozen=True)
class Difference:
    """A tensor of which `elements` of `size` differ in their bits."""

    piece: Slice
    elements: int
    size: int

    def __str__(self) -> str:
        return f"{self.piece.name} ({self.elements} of {self.size} elements)"


@dataclass(frozen=True)
class Writer:
    """A launch that wrote into a buffer. order: its place in the step; where: file:line."""

    order: int
    kernel: str
    where: str

    def __str__(self) -> str:
        return f"{self.kernel} (launched at {self.where})"


def differences(subject: Subject, ours: Snapshot, theirs: Snapshot) -> list[Difference]:
    """The tensors whose bits differ, in the order of the arenas."""
    found = []
    pairs = zip(subject.tensors(ours), subject.tensors(theirs), strict=True)
    for (piece, left), (_, right) in pairs:
        same = same_bits(left, right)
        if not same.all():
            found.append(Difference(piece, int((~same).sum()), same.size))
    return found


def last_writer(journal: Journal, piece: Slice) -> Writer | None:
    """The last launch of a pass that was given `piece` to write to; None if none is known.

    A launch counts that takes a non-const pointer into the piece, or, where no launch does, one to
    the front of the arena that it is a part of: a launch over the whole arena.
    """
    start, end = piece.address, piece.address + piece.nbytes
    writes = list(_writes(journal))
    inside = [writer for address, writer in writes if start <= address < end]
    whole = [writer for address, writer in writes if address == piece.root.address]
    found = inside or whole
    return found[-1] if found else None


def first_of(journal: Journal, found: list[Difference]) -> tuple[Difference, Writer | None]:
    """Of differences behind one step, the one whose last writer comes first in the step."""
    written = [(one, last_writer(journal, one.piece)) for one in found]
    return min(written, key=lambda pair: _LATEST if pair[1] is None else pair[1].order)


def _writes(journal: Journal) -> Iterator[tuple[int, Writer]]:
    """Each address that a launch may write to, in the order of the pass.

    A library call says no more than what it uses, its output first; its place among the launches is
    not recorded, so it comes before them.
    """
    for call in journal.library:
        for address in call.addresses[:1]:
            yield address, Writer(-1, call.name, call.where)
    for launch in journal.launches:
        params = () if launch.signature is None else launch.signature.params
        outputs = {param.name for param in params if param.pointer and not param.const}
        for name, address in launch.pointers:
            if name in outputs:
                yield address, Writer(launch.index, launch.kernel, launch.where)
