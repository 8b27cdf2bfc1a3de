"""The branches of a backward pass: work that nothing waits for before its end runs beside the rest.

That is the gradients of weights: a chain of gradients of activations leads through a model, and
these hang on it. Where a layer's products are too small to fill the GPU, two at a time take little
longer than one.

What a branch reads is given back to the pool only after the join, or after a mark behind it: a
later launch of the main stream could else be handed memory that a branch still reads. So the trace
of a pass without marks lives until its end. What changes in place, as the gradient of a stream does
in float32, changes behind a mark, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from lowgraph.blas import Blas
from lowgraph.integers import integer
from lowgraph.memory import Slice

__all__ = ["Branches", "branch_count", "spare_streams"]

_WIDEST = 512
"""Channels up to which a branch pays: the products of a wider model fill the GPU by themselves."""

Drop = Callable[..., None]
"""What gives slices back."""


def branch_count(wanted: int | None, width: int) -> int:
    """Side streams of a model's backward pass; wanted: None for what suits its width.

    Raises ConfigError for a negative number.
    """
    if wanted is None:
        return 1 if width <= _WIDEST else 0
    return integer(wanted, "branches, the number of side streams,", 0)


def spare_streams(count: int) -> int:
    """Side streams of a pass that uses `fork_spare`, with `count` others."""
    return count + 1 if count else 0


class Branches:
    """Of one backward pass. Without side streams all is done on the main one, in the same order."""

    def __init__(self, blas: Blas, stream: int, count: int, drop: Drop) -> None:
        """count: of side streams. drop: gives slices back."""
        self._sides = blas.sides
        self._stream = stream
        self._count = count
        self._drop = drop
        self._forks = 0
        self._spared = sys.maxsize  # the turn from which a stream beside all marks may read
        self._turn = 0  # one more with each fork and each mark
        self._marked: dict[int, int] = {}  # side streams that a mark stands on, by its turn
        self._held: list[tuple[int, Slice]] = []  # with the turn in which a branch last read it

    def fork(self) -> int:
        """The stream for the next piece of side work, which comes behind all that was issued."""
        if not self._count:
            return self._stream
        self._forks += 1
        self._turn += 1
        return self._sides.fork(self._stream, self._last)

    def fork_spare(self) -> int:
        """As `fork`, a stream of its own, for what would wait behind long work to no purpose.

        No mark is behind it, and `join` is. `spare_streams` says how many streams there must be.
        """
        if not self._count:
            return self._stream
        self._turn += 1
        self._spared = min(self._spared, self._turn)
        return self._sides.fork(self._stream, self._count)

    def mark(self) -> int:
        """Note all side work issued so far, for `wait_for`."""
        marked = min(self._count, self._forks)
        for index in range(marked):
            self._sides.mark(index)
        self._turn += 1  # what is sent to a branch from here on is behind it, without a fork too
        self._marked[self._turn] = marked
        return self._turn

    def wait_for(self, mark: int) -> None:
        """Let the main stream's next work come behind what was marked; give back what that read.

        A later mark in its place where there is one by now.
        """
        for index in range(self._marked[mark]):
            self._sides.wait_for_mark(self._stream, index)
        until = min(mark, self._spared)
        self._drop(*(piece for turn, piece in self._held if turn < until))
        self._held = [held for held in self._held if held[0] >= until]

    def drop(self, *pieces: Slice) -> None:
        """Give back what side work sent so far reads, when that is done."""
        if self._count:
            self._held += [(self._turn, piece) for piece in pieces]
        else:
            self._drop(*pieces)

    def join(self) -> None:
        """Let the main stream come behind all side work, and give back what was held."""
        for index in range(min(self._count, self._forks)):
            self._sides.join(self._stream, index)
        if self._spared <= self._turn:
            self._sides.join(self._stream, self._count)
        self._drop(*(piece for _, piece in self._held))
        self._held.clear()

    @property
    def _last(self) -> int:
        return (self._forks - 1) % self._count
