"""Ctrl-C as a request, and as an interrupt when it is pressed again."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from lowgraph.train.interrupt import StopRequest


def _press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_is_a_request_the_second_interrupts(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    with StopRequest() as stop:
        assert not stop.made
        _press()
        assert stop.made
        with pytest.raises(KeyboardInterrupt):
            _press()
    assert signal.getsignal(signal.SIGINT) is before
    assert "stopping after this step" in capsys.readouterr().err


def test_another_thread_may_open_one() -> None:
    made = []

    def work() -> None:
        with StopRequest() as stop:
            made.append(stop.made)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert made == [False]
