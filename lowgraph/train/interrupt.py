"""Ctrl-C as a request: the running step is finished first, so that nothing is half done."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

__all__ = ["StopRequest"]


class StopRequest:
    """While open, the first Ctrl-C sets `made`; a second one raises KeyboardInterrupt as usual.

    Outside the main thread, which alone receives signals, it changes nothing.
    """

    def __init__(self) -> None:
        self.made = False
        self._before: Any = None

    def __enter__(self) -> StopRequest:
        """Take over SIGINT."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._request)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Put the old handler back."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self.made:
            raise KeyboardInterrupt
        self.made = True
        print("\nstopping after this step; Ctrl-C again stops at once", file=sys.stderr)
