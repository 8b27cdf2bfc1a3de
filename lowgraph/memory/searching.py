"""The part of the pool that looks for memory: what is free, what a pass gave back, the driver's."""

from __future__ import annotations

from lowgraph.errors import PoolError
from lowgraph.memory import open_window
from lowgraph.memory.free_list import Block
from lowgraph.memory.open_window import requester
from lowgraph.memory.pass_pool import PassPool
from lowgraph.memory.passes import Pass, PassKind

__all__ = ["SearchingPool"]


class SearchingPool(PassPool):
    """See the module. The caller holds the pool's lock."""

    _refused: int

    def _find(
        self, running: Pass | None, name: str, wanted: str, nbytes: int
    ) -> tuple[Block, bool] | None:
        """A block, and whether the driver provided it; None if it must, and is not to be asked now.

        Its call may wait for the capture lock: who has that may be waiting for this pool.
        """
        if running is not None and running.kind is PassKind.WINDOW:
            return self._find_primed(running, name, wanted, nbytes), False
        block = None if running is None else running.reuse(nbytes)
        block = block or self._source.find(nbytes)
        if block is not None:
            return block, False
        if not self._lock.whole:
            return None
        try:
            return self._source.grow(nbytes, f"{wanted} asked for at {requester()}"), True
        except PoolError:
            block = None if running is None else running.reuse_any(nbytes)
            if block is None:
                raise
            return block, False

    def _find_primed(self, window: Pass, name: str, wanted: str, nbytes: int) -> Block:
        """A block for a window: where it was primed, or what is free besides.

        Of that an exact size first, as another request may want all of a larger one.
        """
        free, recycled = self._source.free, window.recycled
        block = window.placed(free, name, nbytes) or free.take_exact(nbytes)
        block = block or recycled.take(nbytes) or self._source.find(nbytes)
        if block is None:
            self._refused += 1
            largest = max(free.largest, recycled.largest)
            raise open_window.refused(window.miss(wanted, nbytes, requester(), largest))
        return block
