"""Exclusive: a slice that the work of one stream at a time may use, such as a library's workspace.

A graph holds the bare address of the workspace that its library calls were recorded with. Two
graphs may borrow one workspace as long as their replays follow each other; on two streams they
would write over each other's partial sums, without an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowgraph import driver
from lowgraph.driver import forked
from lowgraph.errors import WorkspaceInUse
from lowgraph.memory.open_window import LOCK

if TYPE_CHECKING:
    from lowgraph.memory.slices import Slice

__all__ = ["Exclusive"]


class Exclusive:
    """See the module. Attributes: piece (the slice), lock (held from `enter` until enqueued)."""

    __slots__ = ("_stream", "_user", "lock", "piece")

    def __init__(self, piece: Slice) -> None:
        """Guard a slice that nobody uses yet."""
        self.piece = piece
        self.lock = forked.lock()
        self._user: object = None
        self._stream: int | None = None

    def enter(self, user: object, stream: int) -> None:
        """`user` (str() names it) is about to enqueue work on `stream` that uses the slice.

        Call it under `lock`. Raises WorkspaceInUse, naming both, while another stream's work that
        uses it is in flight: an order that the two streams have by events cannot be seen from here.
        """
        if stream != self._stream and self._stream is not None and not _is_done(self._stream):
            raise self._busy(user, stream, self._stream)
        self._user, self._stream = user, stream

    def left(self, user: object) -> None:
        """`user` will not use it again, and its work is done: its stream is not asked any more."""
        if self._user is user:
            self._user = self._stream = None

    def _busy(self, user: object, stream: int, last: int) -> WorkspaceInUse:
        piece = self.piece
        reason = (
            f"{str(user)!r} on stream {stream:#x} would use {piece.name!r} while "
            f"{str(self._user)!r} on stream {last:#x} is using it: wait for that stream first, "
            "or record the two on streams with workspaces of their own"
        )
        return WorkspaceInUse(piece.id, piece.nbytes, [str(self._user), str(user)], reason)


def _is_done(stream: int) -> bool:
    with LOCK:  # a query would break the global-mode capture of another thread
        return driver.stream.is_done(stream)
