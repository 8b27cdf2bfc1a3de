"""Bodies that ask CuPy for something, and what becomes of their steps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from lowgraph import driver
from lowgraph.capture import Phase
from lowgraph.errors import CaptureRefused
from lowgraph.memory import open_window
from tests.embedding.cupy_body import of
from tests.embedding.small import BLOCKS, N, Small

Act = Callable[[], object]


def body_of(small: Small, act: Act) -> Callable[[int], None]:
    """y += 2 x behind what `act` asks of CuPy."""

    def launched(stream: int) -> None:
        act()
        small.add(stream, BLOCKS, 128, small.y, small.x, N)

    return of(small, launched)


def in_window(act: Act) -> Act:
    return lambda: act() if open_window.mine() is not None else None


def refusal_of(small: Small, act: Act) -> CaptureRefused:
    """Of a step whose body goes on behind it: the capture is not harmed, and the stream is well."""
    states: list[str] = []

    def tried() -> None:
        with suppress(CaptureRefused):
            act()
        states.append(driver.stream.capture_status(small.stream))

    step = small.step(body=body_of(small, tried))
    step.prime()
    with pytest.raises(CaptureRefused) as caught:
        step.capture()
    assert states == ["none", "active"]
    assert small.ready(body=body_of(small, lambda: None)).phase is Phase.READY
    return caught.value


def elsewhere(act: Act) -> list[object]:
    """What another thread gets."""
    got: list[object] = []

    def run() -> None:
        try:
            got.append(act())
        except Exception as error:
            got.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return got


def fails(nbytes: Any) -> None:
    raise KeyError("no memory")
