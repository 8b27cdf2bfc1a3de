"""Calls of other threads at every moment of a change in what a window guards."""

from __future__ import annotations

import threading
from types import SimpleNamespace

from lowgraph.capture.guard import WindowGuard
from lowgraph.driver.captures import OpenCapture
from lowgraph.errors import CaptureInProgress
from tests.support.interleave import between_instructions

EVENT, ORIGIN, BODY = 7, 0x1000, 0x2000


def test_the_capture_around_a_body_is_guarded_at_every_moment() -> None:
    """While the body of a conditional begins and ends, too."""
    guard = WindowGuard(OpenCapture("step", ORIGIN, "user.py:3"))
    body = SimpleNamespace(label="while 'countdown'", graph=3)
    passed: list[str] = []

    def other() -> None:
        try:
            guard("cuEventRecord", (EVENT, ORIGIN))
            passed.append("a record on the capture's stream")
        except CaptureInProgress:
            pass

    def beside() -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    for at in between_instructions(WindowGuard.inside, beside):
        with at, guard.inside(body, BODY):
            pass
    assert not passed and guard.forks.streams == {ORIGIN}
