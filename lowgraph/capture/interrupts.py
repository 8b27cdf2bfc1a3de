"""Shield: Ctrl-C is held back while a window is set up or torn down, and delivered after that.

A KeyboardInterrupt between two driver calls of the teardown would leave the stream capturing for
good. Only the main thread runs Python's signal handlers, so elsewhere there is nothing to hold.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

__all__ = ["Shield"]


class Shield:
    """Raise and lower it in any order; a held interrupt goes to the handler from before."""

    def __init__(self) -> None:
        """Make it lowered."""
        self._before: Any = None
        self._raised = False
        self._held: tuple[int, FrameType | None] | None = None

    def up(self) -> None:
        """Hold interrupts back from here on."""
        if self._raised or threading.current_thread() is not threading.main_thread():
            return
        before = signal.getsignal(signal.SIGINT)
        if callable(before):  # else: ignored, default or set outside Python: nothing is raised here
            self._before = before
            self._raised = True
            signal.signal(signal.SIGINT, self._hold)

    def down(self) -> None:
        """Put the old handler back and hand it an interrupt that was held."""
        if not self._raised:
            return
        signal.signal(signal.SIGINT, self._before)
        self._raised = False
        held, self._held = self._held, None
        if held is not None:
            self._before(*held)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self._held = number, frame
