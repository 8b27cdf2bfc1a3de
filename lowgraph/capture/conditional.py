"""Conditional: an IF or a WHILE of a step, decided on the device at every replay.

    steer = Conditional(library)                       # once, before the steps
    again = pool.take("again", 1, np.int32)            # the flag, which kernels write

    def body(stream):
        start(stream, 1, 1, again, x)
        steer.run_while(stream, again, lambda inner: iterate(inner, 1, 256, again, x, n))

While a window records, the body is called once, with a stream of its own, and becomes the body of a
conditional node; a kernel before the node, and for a WHILE one at the end of the body, turn the
flag into the node's condition. In an unrecorded pass the flag is read on the host, which waits for
the stream, and the body is called as often as it says, with the stream itself.

So a body takes its memory before the conditional (an unrecorded pass may not reach it), and what
it does without the device, it does once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lowgraph import driver
from lowgraph.capture.bodies import Bodies
from lowgraph.errors import CaptureIncomplete, CaptureRefused, ConfigError
from lowgraph.kernels import Library
from lowgraph.memory import open_window

__all__ = ["Conditional"]

_UNRECORDED = -1  # the number of every body outside of a window

Side = Callable[[int], object]
Sides = tuple[tuple[str, Side], ...]


class Conditional:
    """See the module. One object serves any number of conditionals, nested ones too, of one thread.

    flag: everywhere one int32 in device memory, with `address`, `dtype` and `nbytes` (a slice).
    label: for messages. Bodies hold kernels, memsets, copies of device and pinned memory, and
    conditionals; anything else is ConditionalBodyInvalid before the driver sees it.
    """

    def __init__(self, library: Library) -> None:
        """Load the kernel that sets conditions, so that no window has to."""
        self._set = library.kernel("conditional.cu", "set_condition")
        self._streams = [driver.stream.create()]  # of the bodies, by depth
        self._depth = 0

    def run_if(
        self,
        stream: int,
        flag: Any,
        body: Side,
        otherwise: Side | None = None,
        *,
        label: str = "if",
    ) -> None:
        """Run `body(stream)` if the flag is not 0 when the stream comes here, else `otherwise`.

        `otherwise` needs a driver of CUDA 12.8 or later. Raises ConfigError for a flag that is no
        int32, ConditionalBodyInvalid, CaptureRefused in a capture that is no window, DriverError.
        """
        _check(flag, label)
        window = _window(stream, label)
        if window is not None:
            sides: Sides = (("if", body),)
            if otherwise is not None:
                sides += (("else", otherwise),)
            self._record(window, stream, flag, "if", sides, label)
        elif _read(flag, stream):
            _run(body, stream)
        elif otherwise is not None:
            _run(otherwise, stream)

    def run_while(self, stream: int, flag: Any, body: Side, *, label: str = "while") -> None:
        """Run `body(stream)` for as long as the flag is not 0, which is looked at before each run.

        The body has to write the flag. Raises as `run_if` does.
        """
        _check(flag, label)
        window = _window(stream, label)
        if window is not None:
            self._record(window, stream, flag, "while", (("while", body),), label)
            return
        first = True
        while _read(flag, stream):
            _run(body, stream, again=not first)
            first = False

    def close(self) -> None:
        """Destroy the streams that bodies are recorded on. Idempotent; graphs do not need them."""
        while self._streams:
            driver.stream.destroy(self._streams.pop())

    def _record(
        self, bodies: Bodies, stream: int, flag: Any, kind: str, sides: Sides, label: str
    ) -> None:
        graph = driver.stream.capture_graph(stream)
        if graph is None:
            raise open_window.refused(
                CaptureIncomplete(
                    f"{kind} {label!r} was given stream {stream:#x}, which is not in the capture",
                    open_window.requester(),
                    "give it the stream that the step's body, or the body around it, is given",
                )
            )
        handle = bodies.create_handle(graph)
        self._steer(stream, handle, flag)
        slots = bodies.add(stream, handle, kind, len(sides))
        for slot, (side, act) in zip(slots, sides, strict=True):
            inner = self._stream()
            self._depth += 1
            try:
                with bodies.open(slot, f"{side} body of {label!r}", inner):
                    act(inner)
                    if kind == "while":
                        self._steer(inner, handle, flag)
            finally:
                self._depth -= 1

    def _steer(self, stream: int, handle: int, flag: Any) -> None:
        with _placed(aside=True):
            self._set(stream, 1, 1, handle, flag)

    def _stream(self) -> int:
        while len(self._streams) <= self._depth:
            self._streams.append(driver.stream.create())
        return self._streams[self._depth]


def _check(flag: Any, label: str) -> None:
    if getattr(flag, "dtype", None) != np.int32 or flag.nbytes < 4:
        raise ConfigError(f"the flag of {label!r} is {flag!r}: give an int32 in device memory")


def _window(stream: int, label: str) -> Bodies | None:
    """What the open window of this thread keeps of bodies; None outside of any capture."""
    window = open_window.mine()
    if window is not None:
        assert isinstance(window.bodies, Bodies), "a window that is open keeps its bodies"
        return window.bodies
    if driver.stream.capture_status(stream) == "none":
        return None
    raise CaptureRefused(
        f"the conditional {label!r} was recorded in a bare capture, which checks no bodies",
        open_window.requester(),
        "record it with a GraphStep or a Window",
    )


def _read(flag: Any, stream: int) -> bool:
    value = ctypes.c_int32()
    driver.memory.copy_dtoh_async(ctypes.addressof(value), int(flag.address), 4, stream)
    driver.stream.synchronize(stream)
    return value.value != 0


def _run(body: Side, stream: int, again: bool = False) -> None:
    """Run a body unrecorded; `again`: a window records it once, so this run has no twin there."""
    with _placed(body=_UNRECORDED, aside=again):
        body(stream)


@contextmanager
def _placed(body: int = 0, *, aside: bool) -> Iterator[None]:
    """Tell the pass's journal where the launches of the block belong; see `Recorder.place`.

    body: 0 leaves it as it is. aside: so does False.
    """
    recorder = open_window.recorder()
    if recorder is None:
        yield
        return
    before = recorder.placed
    recorder.place(body or before[0], aside or before[1])
    try:
        yield
    finally:
        recorder.place(*before)
