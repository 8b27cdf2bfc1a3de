"""A Ctrl-C before a command has begun: one line and an exit code, in place of a traceback.

A command imports for a second before it can catch anything. An exception would not do meanwhile:
compiled modules turn a KeyboardInterrupt into an ImportError of their own. So nothing is raised:
the process ends where it is, which leaves nothing half-written, as nothing has been begun.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False  # typing takes longer to import than there is before the guard
if TYPE_CHECKING:
    from typing import Any

__all__ = ["INTERRUPTED", "EndsAtOnce"]

INTERRUPTED = 130
"""Exit code: what a shell reports for a program that SIGINT ended."""


class EndsAtOnce:
    """Inside, Ctrl-C ends the process. It changes nothing where SIGINT is ignored or handled."""

    def __init__(self) -> None:
        self._before: Any = None

    def __enter__(self) -> EndsAtOnce:
        """Take over SIGINT."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            try:  # noqa: SIM105 (contextlib's import would come before the guard)
                self._before = signal.signal(signal.SIGINT, _end)
            except ValueError:  # outside the main thread, which alone receives signals
                pass
        return self

    def __exit__(self, *raised: object) -> None:
        """Put the old handler back."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None


def _end(number: int, frame: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
