"""PoolLock: what one pool's operations hold, so that another pool's window does not stop them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from lowgraph.driver import captures, forked
from lowgraph.driver.captures import LOCK

__all__ = ["PoolLock"]

_LOOK = 1e-3  # seconds between two looks at who holds what


class PoolLock:
    """The process's capture lock, and inside it a lock of the pool's own. Re-entrant.

    Another thread may allocate and launch beside a window (facts), so while a window over another
    pool holds the capture lock, the pool's own is enough. A window over this pool holds both: who
    wants the pool meanwhile waits for its end, or gets CaptureInProgress.
    """

    def __init__(self) -> None:
        """Make a lock that nobody holds."""
        self.windowed = False  # a window over this pool is open
        self._own = forked.rlock()
        self._owner = 0  # the thread that holds `_own`
        self._outer: list[bool] = []  # of each time it was taken, whether the capture lock was too

    def acquire(self, what: str) -> None:
        """Take both, as a window does. Raises CaptureInProgress, see CaptureLock."""
        LOCK.acquire(what)
        self._own.acquire()
        self._note(True)

    @contextmanager
    def with_capture_lock(self) -> Iterator[None]:
        """Hold both, as a call that gives memory back to the driver needs it."""
        self.acquire("a pool that asks the driver for memory or gives it back")
        try:
            yield
        finally:
            self.release()

    @property
    def whole(self) -> bool:
        """Whether its holder, who asks, has the capture lock as well."""
        return any(self._outer)

    def release(self) -> None:
        """Give back what was taken last."""
        outer = self._outer.pop()
        if not self._outer:
            self._owner = 0
        self._own.release()
        if outer:
            LOCK.release()

    def __enter__(self) -> PoolLock:
        if self._owner == threading.get_ident():
            self._own.acquire()
            self._note(False)
        else:
            self._note(self._acquire())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def _note(self, outer: bool) -> None:
        self._owner = threading.get_ident()
        self._outer.append(outer)

    def _acquire(self) -> bool:
        """Take `_own`, behind the capture lock if that can be had; returns whether it was.

        Who has `_own` alone never waits for the capture lock: whoever has that may wait for `_own`.
        """
        seconds = 0.0
        while True:
            if LOCK.attempt(seconds):
                self._own.acquire()
                return True
            if self.windowed:
                LOCK.acquire()
                self._own.acquire()
                return True
            # Not for longer: a window over this pool would keep it, and there is no patience here.
            if captures.window() is not None and self._own.acquire(timeout=_LOOK):
                return False
            seconds = _LOOK
