"""Shield: Ctrl-C is held back while a window is set up or torn down, and delivered after that.

A KeyboardInterrupt between two driver calls of the teardown would leave the stream capturing for
good. A second Ctrl-C passes at once: what is shielded may hang. Only the main thread runs Python's
signal handlers, so elsewhere there is nothing to hold.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["Shield", "shielded"]


@contextmanager
def shielded() -> Iterator[Shield]:
    """Hold interrupts back until the block has ended; it may lower the shield for a while."""
    shield = Shield()
    shield.up()
    try:
        yield shield
    finally:
        shield.down()


class Shield:
    """Raise and lower it in any order; a held interrupt goes to the handler from before.

    Inside another shield it does nothing: the interrupt is that one's to deliver.
    """

    def __init__(self) -> None:
        """Make it lowered."""
        self._before: Any = None
        self._held: tuple[int, FrameType | None] | None = None

    def up(self) -> None:
        """Hold interrupts back from here on."""
        if threading.current_thread() is not threading.main_thread():
            return
        before = signal.getsignal(signal.SIGINT)
        if getattr(before, "__func__", None) is Shield._hold:  # raised already
            return
        if callable(before):  # else: ignored, default or set outside Python: nothing is raised here
            self._before = before
            signal.signal(signal.SIGINT, self._hold)

    def down(self) -> None:
        """Put the old handler back and hand it an interrupt that was held."""
        # The handler tells whether it is raised: a note of ours would be wrong for a moment, in
        # which the old handler may be called, and raise.
        if signal.getsignal(signal.SIGINT) == self._hold:
            signal.signal(signal.SIGINT, self._before)
        held, self._held = self._held, None
        if held is not None:
            self._before(*held)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        if self._held is not None:
            self._before(number, frame)
        self._held = number, frame
