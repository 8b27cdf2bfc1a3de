"""One pass of a step's body over the pool: what it took, and what becomes of it at the end."""

from __future__ import annotations

import enum
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple

from lowgraph.errors import CaptureAllocationError
from lowgraph.memory import open_window
from lowgraph.memory.free_list import Block, FreeList
from lowgraph.memory.places import Place, Route, union
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


_SMALL = 1 << 20
_SHARE = 8  # a small slice takes part of a block of at most so many times its bytes


_SPARE = Place("", 0, 0)  # of memory where the priming pass had nothing later


def covered(ranges: Iterable[tuple[int, int]]) -> int:
    """Bytes in the union of half-open address ranges."""
    return sum(end - first for first, end in union(ranges))


class Primed:
    """What a priming pass keeps until the window that it primed begins: its figures and places."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.figures = PassFigures()
        self.places: list[Place] = []

    def move(self, first: int, end: int, to: int) -> None:
        """The places in this range of addresses are in another one, which begins at `to`."""
        for place in self.places:
            if first <= place.address < end:
                place.address += to - first


class Pass:
    """The slices of one running pass, and its counts (bytes, rounded up to the alignment)."""

    def __init__(
        self,
        kind: PassKind,
        label: str,
        holder: object | None = None,
        primed: Primed | None = None,
        free_before: tuple[Block, ...] = (),
        reuses: bool = True,
    ) -> None:
        """primed: of a window, what it was primed with; of a priming pass, what it fills.

        reuses: whether a priming pass takes again what was given back in it.
        """
        self.kind = kind
        self.label = label
        self.holder = holder
        self.primed = primed
        self.route = Route(primed.places if primed is not None else ())
        self.places: dict[int, Place | None] = {}  # of the slices that live, by their addresses
        self.free_before = free_before
        self.reuses = reuses
        self.recycled = FreeList()  # given back in the pass, and its alone
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

        Those are meant that lie in it with any of their bytes: it may be part of a block that was.
        """
        starts = [block.address for block in blocks]
        found: list[list[Slice]] = [[] for _ in blocks]
        for piece in self._pieces.values():
            end = piece._address + max(piece.nbytes, 1)
            place = max(0, bisect_right(starts, piece._address) - 1)
            while place < len(blocks) and starts[place] < end:
                if piece._address < blocks[place].end:
                    found[place].append(piece)
                place += 1
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
        if self.kind is PassKind.PRIMING and self.primed is not None:
            place = self.places[piece._address] = Place(piece.name, nbytes, piece._address)
            self.primed.places.append(place)
        recorder = open_window.recorder()
        if recorder is not None:
            recorder.sized("slice", piece.name, (nbytes,), piece._address)

    def gave(self, block: Block) -> bool:
        """Count a slice given back; whether its block is of use to the pass before it is to others.

        Not in a window where the priming pass had something else in the place later on.
        """
        self._held -= block.nbytes
        place = self.places.pop(block.address, None)
        if place is not None and self.kind is PassKind.PRIMING:
            place.stays = not self.reuses
        # What a window found elsewhere may lie where a later slice of it has its place.
        return self.primed is None if place is None else place.stays

    def ends(self) -> None:
        """What is given back from here on was held to the end."""
        self.places.clear()

    def reuse(self, nbytes: int) -> Block | None:
        """Of what was given back in a priming pass.

        A small slice splits no large block: it may be one that lives long, or that an array of
        another library keeps, and all of the block would wait for it.
        """
        if not self.reuses:
            return None
        largest = _SHARE * nbytes if nbytes < _SMALL else inf
        block = self.recycled.take(nbytes, largest)
        if block is None and self.recycled.coalesce():
            block = self.recycled.take(nbytes, largest)
        return block

    def reuse_any(self, nbytes: int) -> Block | None:
        """As `reuse` where there is no other memory: without its rules, from here on."""
        if not self.reuses and self.primed is not None:
            self.reuses = True
            for place in self.primed.places:
                place.stays = self.places.get(place.address) is place
        self.recycled.coalesce()
        return self.recycled.take(nbytes)

    def placed(self, free: FreeList, name: str, nbytes: int) -> Block | None:
        """From the free list, where the priming pass had this slice; None if that is not free.

        Or else where, if the window gave back earlier than that pass: less memory does then.
        """
        spare = self.recycled.take_exact(nbytes)
        for index in self.route.candidates(name, nbytes):
            block = spare or free.take_at(self.route[index].address, nbytes)
            if block is not None:
                place = self.route.follow(index)
                self.places[block.address] = place if spare is None else _SPARE
                return block
        return spare

    @property
    def touched(self) -> list[tuple[int, int]]:
        """Address ranges that slices of the pass were in, in order, apart from one another."""
        return union(self._ranges)

    @property
    def waiting(self) -> tuple[Block, ...]:
        """Blocks that a priming pass keeps and no slice is in."""
        return self.recycled.blocks() if self.kind is PassKind.PRIMING else ()

    @property
    def free_blocks(self) -> tuple[Block, ...]:
        """Blocks that are nobody's, but not on the pool's free list before the pass has ended."""
        recycled = self.recycled.blocks() if self.kind is PassKind.WINDOW else ()
        return (*recycled, *self.late)

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
            kept = self.primed.figures
            primed = (
                f"the priming pass took {counted(kept.slices, 'slice')}, {readable(kept.bytes)} in "
                f"all over {readable(kept.used)} (peak {readable(kept.peak)}), this pass has taken "
                f"{self._slices} with {readable(self._bytes)}"
            )
        return CaptureAllocationError(
            f"{wanted} ({nbytes} bytes) was taken in the capture window of {self.label!r}, where "
            f"the driver is never asked for memory: {primed}; the largest free block has "
            f"{largest} bytes",
            where,
            "prime with a pass that takes what the recorded pass takes, or take this slice once "
            "before the step",
        )
