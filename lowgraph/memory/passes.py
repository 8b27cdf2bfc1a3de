"""One pass of a step's body over the pool: what it took, and what becomes of it at the end."""

from __future__ import annotations

import enum
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from lowgraph.errors import CaptureAllocationError
from lowgraph.memory import open_window
from lowgraph.memory.free_list import Block, FreeList
from lowgraph.memory.slices import Slice
from lowgraph.memory.stats import PassFigures, counted, readable

__all__ = ["LedgerSums", "Pass", "PassKind", "Primed", "covered"]


class PassKind(enum.Enum):
    """How a pass treats its slices: given back, kept for a window, or kept by a graph."""

    EAGER = "eager"
    PRIMING = "priming"
    WINDOW = "window"


class LedgerSums(NamedTuple):
    """Counts of a ledger that an aborted window must leave as they were."""

    takes: int
    gives: int
    peak: int


def covered(ranges: Iterable[tuple[int, int]]) -> int:
    """Bytes in the union of half-open address ranges."""
    total = end = 0
    for first, last in sorted(ranges):
        total += max(0, last - max(first, end))
        end = max(end, last)
    return total


class Primed:
    """What a priming pass keeps until the window that it primed begins; its figures."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.figures = PassFigures()


class Pass:
    """The slices of one running pass, and its counts (bytes, rounded up to the alignment)."""

    def __init__(
        self,
        kind: PassKind,
        label: str,
        holder: object | None = None,
        primed: PassFigures | None = None,
        free_before: tuple[Block, ...] = (),
    ) -> None:
        self.kind = kind
        self.label = label
        self.holder = holder
        self.primed = primed
        self.free_before = free_before
        self.recycled = FreeList()
        self.late: list[Block] = []  # freed in a window by others than the window: free at its end
        self.sums_before: LedgerSums | None = None
        self._ranges: set[tuple[int, int]] = set()
        self.thread = threading.get_ident()
        self._pieces: dict[int, Slice] = {}
        self._slices = self._bytes = self._held = self._peak = self._grown = 0

    def __contains__(self, piece: Slice) -> bool:
        return self._pieces.get(piece.id) is piece

    def outstanding(self) -> Iterator[Slice]:
        """Slices taken and not given back."""
        return (piece for piece in list(self._pieces.values()) if piece.alive)

    def slices_in(self, blocks: Sequence[Block]) -> list[tuple[Slice, ...]]:
        """Of each block, which are in order of addresses, its slices in the order of their taking.

        A slice that is in none of them is in none of the lists.
        """
        starts = [block.address for block in blocks]
        found: list[list[Slice]] = [[] for _ in blocks]
        for piece in self._pieces.values():
            place = bisect_right(starts, piece._address) - 1
            if place >= 0 and piece._address < blocks[place].end:
                found[place].append(piece)
        return [tuple(slices) for slices in found]

    def took(self, piece: Slice, nbytes: int, grown: bool) -> None:
        """Count a slice handed out; `grown`: the driver had to provide it."""
        self._pieces[piece.id] = piece
        self._ranges.add((piece._address, piece._address + nbytes))
        self._slices += 1
        self._bytes += nbytes
        self._held += nbytes
        self._peak = max(self._peak, self._held)
        self._grown += nbytes if grown else 0
        recorder = open_window.recorder()
        if recorder is not None:
            recorder.sized("slice", piece.name, (nbytes,), piece._address)

    def gave(self, nbytes: int) -> None:
        """Count a slice given back."""
        self._held -= nbytes

    @property
    def free_blocks(self) -> tuple[Block, ...]:
        """Blocks that are nobody's, but not on the pool's free list before the pass has ended."""
        return (*self.recycled.blocks(), *self.late)

    @property
    def free_bytes(self) -> int:
        """Bytes of `free_blocks`."""
        return self.recycled.total + sum(block.nbytes for block in self.late)

    @property
    def figures(self) -> PassFigures:
        """The counts so far."""
        used = covered(self._ranges)
        return PassFigures(self._slices, self._bytes, self._peak, self._grown, used)

    def miss(self, wanted: str, nbytes: int, where: str, largest: int) -> CaptureAllocationError:
        """The refusal of a request that the window's free blocks cannot serve."""
        if self.primed is None:
            primed = "nothing was primed"
        else:
            primed = (
                f"the priming pass kept {counted(self.primed.slices, 'slice')}, "
                f"{readable(self.primed.bytes)} in all (peak {readable(self.primed.peak)}), of "
                f"which this pass has taken {self._slices} with {readable(self._bytes)}"
            )
        return CaptureAllocationError(
            f"{wanted} ({nbytes} bytes) was taken in the capture window of {self.label!r}, where "
            f"the driver is never asked for memory: {primed}; the largest free block has "
            f"{largest} bytes",
            where,
            "prime with a pass that takes what the recorded pass takes, or take this slice once "
            "before the step",
        )
