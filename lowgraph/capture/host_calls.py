"""HostCall: a Python function in stream order, once, or at each replay of the graph that has it.

    log = HostCall(lambda: seen.append(time.monotonic()), name="log")

    def body(stream):
        ...
        log.enqueue(stream)

In a capture window the call becomes a host node, and the *graph* keeps the function: dropping every
other reference changes nothing, and it is let go after `close()` and once no replay is in flight.

The function runs in a thread of the driver's, which holds up the stream: keep it short. It makes no
driver call: those through lowgraph are refused before the driver (CudaInHostCallback), those of
other libraries cannot be seen. What it raises is kept, with the number of the replay, and raised
once, by the next call of the step on that stream or by `raise_pending`. (An unrecorded pass does
not know forks: what fails on one is told by `raise_pending` of that stream.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lowgraph import driver
from lowgraph.driver import callbacks
from lowgraph.errors import CaptureRefused, ConfigError
from lowgraph.memory import open_window

__all__ = ["HostCall", "raise_pending"]


class HostCall:
    """See the module. One object may be enqueued several times, by any step.

    function: takes no argument; what it returns is dropped. name: for messages.
    """

    def __init__(self, function: Callable[[], object], name: str = "") -> None:
        """Describe the call; nothing is enqueued yet. Raises ConfigError for a non-function."""
        if not callable(function):
            raise ConfigError(f"a host call of {function!r}: give a function without arguments")
        self.function = function
        self.name = name or getattr(function, "__name__", type(function).__name__)

    def enqueue(self, stream: int) -> None:
        """Call the function behind the stream's work so far: one driver call (cuLaunchHostFunc).

        Raises DriverError; CaptureRefused in a capture that is no window of this thread, where
        nobody would keep the function for the replays.
        """
        window = open_window.mine()
        if window is None and driver.stream.capture_status(stream) != "none":
            raise CaptureRefused(
                f"host call {self.name!r} was enqueued in a bare capture: nothing would keep the "
                "function for its replays",
                open_window.requester(),
                "record it with a GraphStep or a Window",
            )
        told = stream if window is None else window.stream  # the step's, also for a fork of it
        callback = callbacks.Callback(self.function, self.name, told, once=window is None)
        number = callbacks.register(callback)
        try:
            driver.entry.launch_host_function(stream, callbacks.ADDRESS, number)
        except BaseException:
            callbacks.release(number)
            raise
        if window is not None:
            window.undo.append(partial(callbacks.release, number))


def raise_pending(stream: int) -> None:
    """Raise the oldest failure of the stream's host calls that nobody was told of; else return.

    It does not wait: call it after a wait to know of all work before that. Raises
    HostCallbackError, with what the function raised as its cause, and CudaInHostCallback.
    """
    callbacks.raise_pending(stream)
