"""The pool's map: every byte that it holds from the driver, by block, with who has it.

A *segment* is one driver allocation; its blocks follow each other without a gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lowgraph.memory.borrowing import Placed
from lowgraph.memory.stats import counted, readable

if TYPE_CHECKING:
    from lowgraph.memory.pool import PersistentPool

__all__ = ["STATES", "MapBlock", "MapSlice", "PoolMap", "pool_map"]

STATES = ("live", "workspace", "graph", "primed", "resting", "free")


@dataclass(frozen=True)
class MapSlice:
    """A slice in a block. offset: from the segment's beginning; nbytes: without padding.

    stage: the `lowgraph.stage` that it was taken in, "" for none.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    stage: str
    offset: int
    nbytes: int


@dataclass(frozen=True)
class MapBlock:
    """One block of the pool, sizes in bytes.

    segment: number of the driver allocation, in the order of addresses; offset: of the block in it.
    nbytes: with padding.
    state: one of STATES: in a live slice; in one that is a library's workspace; kept by a graph;
        kept for the window that was primed; kept off the free list for a while, so that a late use
        is seen; free.
    owners: graphs that hold it, and for primed blocks the step.
    slices: the latest one. Of a block that a recorded pass used several times, all of them, in the
        order in which they were taken.
    """

    segment: int
    offset: int
    address: int
    nbytes: int
    state: str
    owners: tuple[str, ...] = ()
    slices: tuple[MapSlice, ...] = ()

    @property
    def idle(self) -> bool:
        """Whether nobody has it."""
        return self.state in ("free", "resting")

    @property
    def padding(self) -> int:
        """Bytes behind its only slice; 0 for a block that is free or was used several times.

        And for the rest of a slice that began before the block, or went beyond it.
        """
        only = self.slices[0] if len(self.slices) == 1 else None
        if only is None or only.offset != self.offset or only.nbytes > self.nbytes:
            return 0
        return self.nbytes - only.nbytes

    def lines(self) -> Iterator[str]:
        """Offset, bytes, state, slice, stage, owners: a line a slice, one for a free block."""
        owners = f"; held by {', '.join(self.owners)}" if self.owners else ""
        if not self.slices:
            yield self._line(self.offset, self.nbytes, "-")
        for one in self.slices:
            stage = f" in {one.stage}" if one.stage else ""
            told = f"{one.name} {one.dtype} {list(one.shape)}{stage}{owners}"
            yield self._line(one.offset, one.nbytes, told)

    def _line(self, offset: int, nbytes: int, told: str) -> str:
        return f"{self.segment:>10}  +{offset:<10} {nbytes:>12} {self.state:<9} {told}"


@dataclass(frozen=True)
class PoolMap:
    """All blocks in the order of their addresses."""

    blocks: tuple[MapBlock, ...]

    @property
    def nbytes(self) -> int:
        """Bytes held from the driver."""
        return sum(block.nbytes for block in self.blocks)

    def of(self, *states: str) -> int:
        """Bytes of the blocks in these states."""
        return sum(block.nbytes for block in self.blocks if block.state in states)

    @property
    def padding(self) -> int:
        """Bytes that are in blocks of slices and not of the slices."""
        return sum(block.padding for block in self.blocks)

    @property
    def holes(self) -> tuple[int, ...]:
        """Sizes of the runs of idle bytes, each within one segment, the largest first."""
        runs: list[int] = []
        last: MapBlock | None = None
        for block in self.blocks:
            if block.idle and last is not None and last.idle and last.segment == block.segment:
                runs[-1] += block.nbytes
            elif block.idle:
                runs.append(block.nbytes)
            last = block
        return tuple(sorted(runs, reverse=True))

    @property
    def fragmentation(self) -> float:
        """The share of the idle bytes outside of the largest hole, 0 to 1: unusable for it."""
        idle = sum(self.holes)
        return 1 - self.holes[0] / idle if idle else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Figures and blocks, ready for JSON."""
        return {
            "nbytes": self.nbytes,
            "states": {state: self.of(state) for state in STATES},
            "padding": self.padding,
            "holes": list(self.holes),
            "fragmentation": self.fragmentation,
            "blocks": [asdict(block) for block in self.blocks],
        }

    def summary(self) -> str:
        """One line: segments, blocks, holes, fragmentation."""
        segments = len({block.segment for block in self.blocks})
        largest = readable(self.holes[0]) if self.holes else "none"
        return (
            f"map: {counted(segments, 'driver allocation')}, {counted(len(self.blocks), 'block')}, "
            f"padding {readable(self.padding)}, {counted(len(self.holes), 'hole')} (largest "
            f"{largest}), fragmentation {self.fragmentation:.0%}"
        )

    def lines(self) -> Iterator[str]:
        """The map for people: a summary, a head, and a line a slice or free block."""
        yield self.summary()
        yield "allocation  +offset           bytes state     slice"
        for block in self.blocks:
            yield from block.lines()


def pool_map(pool: PersistentPool) -> PoolMap:
    """The map of a pool at this moment, without a driver call; inside a pass too."""
    places = pool.layout()
    segments = sorted({place.block.segment for place in places})
    number = {base: index for index, base in enumerate(segments)}
    return PoolMap(tuple(_map_block(place, number[place.block.segment]) for place in places))


def _map_block(place: Placed, segment: int) -> MapBlock:
    block = place.block
    slices = tuple(
        MapSlice(
            one.name, one.dtype.name, one.shape, one.stage, one._address - block.segment, one.nbytes
        )
        for one in place.slices
    )
    where = segment, block.address - block.segment, block.address, block.nbytes
    return MapBlock(*where, place.state, place.owners, slices)
