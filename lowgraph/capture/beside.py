"""A step that comes to its turn while another thread's window is open, and stays open.

One window is open at a time, so the step can be neither primed nor recorded then. Its plain pass
can run: in every mode other threads may launch, in all but the global one they may allocate too.
"""

from __future__ import annotations

from lowgraph import driver
from lowgraph.driver import captures
from lowgraph.errors import CaptureInProgress, CaptureRefused
from lowgraph.memory import PersistentPool

__all__ = ["Beside"]


class Beside:
    """The window that a step has given up waiting for, and what the step may do beside it.

    ran, in all calls: a pass has run before, so that the pool has what another one takes.
    """

    def __init__(self, label: str, stream: int, pool: PersistentPool) -> None:
        """No window yet."""
        self._label = label
        self._stream = stream
        self._pool = pool
        self._window: captures.OpenCapture | None = None

    def goes_on(self, ran: bool) -> bool:
        """Whether the window that was given up is open still, and a plain pass may run beside it.

        It is not waited for a second time then.
        """
        window = captures.window()
        return window is not None and window is self._window and not self._why_not(window, ran)

    def give_up(self, error: CaptureInProgress) -> CaptureRefused:
        """The refusal of an attempt whose turn did not come; `error`, its cause, says why."""
        self._window = captures.window()
        refusal = CaptureRefused(f"no turn to record {self._label!r}: {error}")
        refusal.__cause__ = error
        return refusal

    def check(self, ran: bool) -> None:
        """Raise CaptureInProgress, with the reason, where a plain pass may not run either."""
        window = captures.window()
        why = "" if window is None else self._why_not(window, ran)
        if window is not None and why:
            raise captures.in_progress(f"a step of {self._label!r} without a graph ({why})", window)

    def _why_not(self, window: captures.OpenCapture, ran: bool) -> str:
        if driver.stream.capture_status(self._stream) != "none":
            return "its stream is in that capture, whose graph would get its launches"
        if self._pool.in_other_window:
            return "its pool serves that window, and nobody else before its end"
        if window.mode == "global" and not ran:
            return "its first pass allocates, which breaks a capture in global mode"
        return ""
