"""Places: where a priming pass had its slices, so that its window can have them there again.

A priming pass hands out again what was given back in it. Two slices that live at one time have
places apart; so if the recorded pass takes and gives in the same order, the place of each slice is
free when it is asked for, whatever else happened to the pool. No search can promise that: from
another list of free blocks, best fit splits other blocks, and may end without a large one.

Where the recorded pass goes another way, its slices still get a place by their name, if that is
free: it may skip slices (a loop that the priming pass went through several times), take smaller
ones, or give them back earlier.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["Place", "Route", "union"]

Range = tuple[int, int]
"""Half-open, of addresses."""


def union(ranges: Iterable[Range]) -> list[Range]:
    """The ranges in order, those that overlap as one; neighbours stay two."""
    merged: list[Range] = []
    for first, end in sorted(ranges):
        if merged and first < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((first, end))
    return merged


class Place:
    """Of a slice of a priming pass: name, aligned bytes, address.

    stays: whether it was held to the pass's end. Then no later slice of the pass is here, and a
    window that gives it back earlier may put there what it likes.
    """

    __slots__ = ("address", "name", "nbytes", "stays")

    def __init__(self, name: str, nbytes: int, address: int) -> None:
        self.name = name
        self.nbytes = nbytes
        self.address = address
        self.stays = True

    @property
    def range(self) -> Range:
        """Its addresses."""
        return self.address, self.address + self.nbytes


class Route:
    """One window's way through the places of the pass that primed it, in the order of the taking.

    Attributes: expected, the index of the place that is next where nothing differs.
    """

    def __init__(self, places: Sequence[Place]) -> None:
        self.expected = 0
        self._places = places
        self._left: defaultdict[str, list[int]] | None = None  # by name, made where it is needed
        self._gone: set[int] = set()

    def candidates(self, name: str, nbytes: int) -> Iterator[int]:
        """Indices of places to try for a slice, the best first; each is asked for once."""
        index = self.expected
        expected = self._places[index] if index < len(self._places) else None
        if expected is not None and expected.name == name and expected.nbytes >= nbytes:
            yield index
        yield from self._by_name(name, nbytes)
        if expected is not None and expected.nbytes == nbytes:
            yield index  # names that change from pass to pass

    def follow(self, index: int) -> Place:
        """The slice is put there; the next one is expected behind it."""
        self.expected = index + 1
        self._gone.add(index)
        return self._places[index]

    def __getitem__(self, index: int) -> Place:
        return self._places[index]

    def _by_name(self, name: str, nbytes: int) -> list[int]:
        """Places of the name that are large enough: of the same size first, then what is ahead."""
        if self._left is None:
            self._left = defaultdict(list)
            for index, place in enumerate(self._places):
                self._left[place.name].append(index)
        left = [index for index in self._left[name] if index not in self._gone]
        self._left[name] = left
        found = [index for index in left if self._places[index].nbytes >= nbytes]
        key = {i: (self._places[i].nbytes != nbytes, i < self.expected, i) for i in found}
        return sorted(found, key=key.__getitem__)
