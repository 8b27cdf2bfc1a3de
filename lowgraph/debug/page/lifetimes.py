"""Memory over the time of one replay: from which node to which each piece of it is in use.

Time is the order in which nodes were issued. What a graph reads before it writes lives longer than
that, from before the replay or to after it; a form does not tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

from lowgraph.debug.form import Form, Memory

__all__ = ["Life", "address_map", "in_use", "lives"]

_LOWEST = 16  # pixels of the smallest range in the map, enough for its name
_GAP = 6  # pixels between ranges with nothing between them that the graph uses


@dataclass(frozen=True)
class Life:
    """first, last: places in the timeline, None of memory that no node is given."""

    first: int | None
    last: int | None


def lives(form: Form, timeline: Sequence[int]) -> list[Life]:
    """Of each memory of the form."""
    first: list[int | None] = [None] * len(form.memory)
    last: list[int | None] = [None] * len(form.memory)
    for at, index in enumerate(timeline):
        for argument in form.nodes[index].arguments:
            if argument.memory is not None:
                last[argument.memory] = at
                if first[argument.memory] is None:
                    first[argument.memory] = at
    return [Life(*ends) for ends in zip(first, last, strict=True)]


def in_use(memory: Sequence[Memory], found: Sequence[Life], length: int) -> list[int]:
    """Bytes between their first and last use at each place in the timeline."""
    change = [0] * (length + 1)
    for one, life in zip(memory, found, strict=True):
        if life.first is not None and life.last is not None:
            change[life.first] += one.nbytes
            change[life.last + 1] -= one.nbytes
    total, sums = 0, []
    for step in change[:length]:
        total += step
        sums.append(total)
    return sums


def address_map(memory: Sequence[Memory]) -> list[tuple[int, int]]:
    """Top and height in pixels of each memory, by its address.

    A range grows with the logarithm of its bytes, so that the smallest and the largest are seen;
    ranges that nothing lies in are a small gap. What shares bytes overlaps.
    """
    ends: dict[int, int] = {}
    for one in memory:
        ends[one.address] = ends.get(one.address, 0) + 1
        ends[one.address + one.nbytes] = ends.get(one.address + one.nbytes, 0) - 1
    addresses = sorted(ends)
    y, covered, top = 0, 0, {}
    for at, address in enumerate(addresses):
        if at:
            y += _height(address - addresses[at - 1], covered)
        top[address] = y
        covered += ends[address]
    return [(top[one.address], top[one.address + one.nbytes] - top[one.address]) for one in memory]


def _height(nbytes: int, covered: int) -> int:
    return _LOWEST + round(3 * log2(1 + nbytes / 256)) if covered else _GAP
