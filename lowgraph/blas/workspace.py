"""The workspaces of a Blas: one for each stream, taken before any window, lent to graphs by name.

A graph that recorded a product holds the workspace's slice until it is closed (the pool knows it by
the addresses that its kernels were given), so the ledger of the pool is the list of borrowers.
"""

from __future__ import annotations

import contextlib

import numpy as np

from lowgraph import driver
from lowgraph.errors import ContextPoisoned
from lowgraph.integers import integer
from lowgraph.memory import PersistentPool, Slice

__all__ = ["Workspaces", "workspace_bytes"]

_MIB = 1 << 20


def workspace_bytes(compute_capability: tuple[int, int]) -> int:
    """32 MiB from compute capability 9.0 on, as NVIDIA advises for Hopper; else 8 MiB."""
    return 32 * _MIB if compute_capability >= (9, 0) else 8 * _MIB


class Workspaces:
    """Slices by stream handle. A stream must live until its workspace is released."""

    def __init__(self, pool: PersistentPool, nbytes: int) -> None:
        """Hold none yet; each will have `nbytes`. Raises ConfigError below 1."""
        self.nbytes = _size(nbytes)
        self._pool = pool
        self._by_stream: dict[int, Slice] = {}

    def get(self, stream: int) -> Slice | None:
        """The stream's workspace, or None."""
        return self._by_stream.get(stream)

    def make(self, stream: int) -> Slice:
        """The stream's workspace, taken from the pool if need be. Outside windows."""
        found = self._by_stream.get(stream)
        return found if found is not None else self._take(stream)

    def resize(self, nbytes: int) -> None:
        """Replace every workspace by one of `nbytes`.

        Raises ConfigError below 1, WorkspaceInUse: nothing changed.
        """
        nbytes = _size(nbytes)
        self.check_unborrowed()
        streams = list(self._by_stream)
        for stream in streams:
            self.release(stream)
        self.nbytes = nbytes
        for stream in streams:
            self._take(stream)

    def release(self, stream: int) -> None:
        """Wait for the stream and give its workspace back, if it has one. Raises WorkspaceInUse."""
        piece = self._by_stream.get(stream)
        if piece is None:
            return
        self._pool.refuse_borrowed(piece)
        with contextlib.suppress(ContextPoisoned):
            if not driver.stream.is_done(stream):
                driver.stream.synchronize(stream)
        self._pool.give_back(piece)
        del self._by_stream[stream]

    def close(self) -> None:
        """Give all back. Raises WorkspaceInUse before any is given back; else idempotent."""
        self.check_unborrowed()
        for stream in list(self._by_stream):
            self.release(stream)

    def check_unborrowed(self) -> None:
        """Raise WorkspaceInUse if graphs borrow any of them."""
        for piece in self._by_stream.values():
            self._pool.refuse_borrowed(piece)

    def _take(self, stream: int) -> Slice:
        name = f"blas workspace of stream {stream:#x}"
        piece = self._pool.take(name, self.nbytes, np.uint8, lasting=True)
        self._pool.make_exclusive(piece)
        self._by_stream[stream] = piece
        return piece


def _size(nbytes: int) -> int:
    return integer(nbytes, "a workspace's bytes", 1)
