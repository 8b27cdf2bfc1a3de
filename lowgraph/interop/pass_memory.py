"""PassMemory: slices for the arrays that another library makes while a step's body runs.

Each array has a Keeper, which says when the array is gone. It says so in whatever thread and at
whatever moment drops the array, so nothing but a note is made then: in a window the slice is given
back when the library asks for memory next, in the window's thread, so that the same work takes the
same slices. It is not while a fork is in the capture, whose work may read the array still; and not
in other passes, which do not know of forks: their slices go back at their end.

An array that outlives its pass keeps its memory: the pool has other for the window (`loans`).
"""

from __future__ import annotations

from collections import deque

import numpy as np

from lowgraph import driver
from lowgraph.capture.guard import WindowGuard
from lowgraph.errors import CaptureIncomplete, CaptureRefused, PoolError
from lowgraph.memory import PersistentPool, Slice, open_window

__all__ = ["Keeper", "PassMemory"]


class _Life:
    """Of an array: whether it is over. The pool looks at it as at any array's (`lend`)."""

    __slots__ = ("over", "piece")

    def __init__(self, piece: Slice) -> None:
        self.piece = piece
        self.over = False

    def is_over(self) -> bool:
        return self.over


class Keeper:
    """What an array over a slice is to hold; when it is dropped, the array's life is over."""

    __slots__ = ("_ended", "_life")

    def __init__(self, life: _Life, ended: deque[_Life]) -> None:
        self._life = life
        self._ended = ended

    def __del__(self) -> None:
        self._life.over = True
        self._ended.append(self._life)


class PassMemory:
    """See the module. One is made for each block of a body in which a library allocates.

    library: its name, for messages and the names of slices. stream: that its work goes to.
    refusal: of the latest request that was refused in a window: a library may answer it with an
    error of its own.
    """

    def __init__(self, pool: PersistentPool, library: str, stream: int) -> None:
        """Raises PoolError where this thread runs no pass of `pool`."""
        if not pool.in_pass:
            raise PoolError(
                f"{library} is to take memory of the pool where no step's body runs: it would not "
                "be known when to give it back. Call it in the body of a GraphStep, or let "
                f"{library} allocate by itself and declare its array as an Input"
            )
        self._pool = pool
        self._library = library
        self._stream = stream
        self._living: dict[int, _Life] = {}
        self._ended: deque[_Life] = deque()
        self._taken = 0
        self.refusal: CaptureRefused | None = None

    def take(self, nbytes: int, stream: int) -> tuple[Slice, Keeper]:
        """Memory for an array, and what the array has to keep alive.

        stream: that the library sends work to at this moment. Raises CaptureAllocationError for
        what a window has not been primed with, CaptureIncomplete for a stream that is not in the
        window's capture, PoolError.
        """
        name = f"{self._library}'s array {self._taken}"
        try:
            if stream != self._stream:
                self._check(stream)
            self.settle()
            piece = self._pool.take(name, nbytes, np.uint8)
        except CaptureRefused as refusal:
            self.refusal = refusal
            raise
        self._taken += 1
        life = self._living[piece.id] = _Life(piece)
        return piece, Keeper(life, self._ended)

    def settle(self) -> None:
        """Give back what arrays held that are gone, in the order of their ends: see the module."""
        reuses = self._is_alone()
        while self._ended:
            life = self._ended.popleft()
            del self._living[life.piece.id]
            if reuses:
                self._pool.give_back(life.piece)

    def _is_alone(self) -> bool:
        """Whether this thread's window has one stream, the block's."""
        guard = driver.gate.guard
        if open_window.mine() is None or not isinstance(guard, WindowGuard):
            return False
        return guard.forks.streams == {self._stream}

    def leave(self) -> None:
        """The block is over: arrays that live on hold their memory."""
        self.settle()
        for life in self._living.values():
            self._pool.lend(life.piece, life)

    def _check(self, stream: int) -> None:
        window = open_window.mine()
        if window is None or driver.stream.capture_status_unheard(stream) == "active":
            return
        raise open_window.refused(
            CaptureIncomplete(
                f"{self._library} sends its work to stream {stream:#x} in the capture window of "
                f"{window.label!r}, which is not in the capture: it would run at once and be in no "
                "replay",
                open_window.requester(),
                f"leave {self._library}'s current stream as it is in the block, or fork the other "
                "one from it with an event",
            )
        )
