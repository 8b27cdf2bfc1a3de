"""Calls of other threads at every moment of a change in what a window guards."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from lowgraph.capture import other_threads
from lowgraph.capture.guard import WindowGuard
from lowgraph.driver import captures
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


@pytest.mark.parametrize("ends", [True, False])
def test_a_window_lets_calls_finish_though_the_process_stands_still(
    monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """Stopped for an hour between two looks: the call before the driver has not gone on either."""
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if ends and len(looks) == 5:
            captures.in_flight.clear()

    clock = SimpleNamespace(sleep=sleep, monotonic=iter(range(0, 10**9, 3600)).__next__)
    monkeypatch.setattr(other_threads, "time", clock)
    monkeypatch.setattr(captures, "in_flight", {-1: ("cuCtxSynchronize", ())})
    guard = WindowGuard(OpenCapture("step", ORIGIN, "user.py:3"))
    guard.let_others_finish()
    assert len(looks) == (5 if ends else other_threads._LOOKS), "one inside the driver is let be"
