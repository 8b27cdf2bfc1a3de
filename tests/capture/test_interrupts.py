"""Shield: Ctrl-C is held back and delivered, never lost."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from lowgraph.capture.interrupts import Shield


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_is_held_until_the_shield_is_down() -> None:
    before = signal.getsignal(signal.SIGINT)
    shield = Shield()
    shield.up()
    interrupt()
    reached = True
    with pytest.raises(KeyboardInterrupt):
        shield.down()
    assert reached and signal.getsignal(signal.SIGINT) is before
    shield.down()


def test_up_and_down_are_idempotent_and_quiet_without_an_interrupt() -> None:
    before = signal.getsignal(signal.SIGINT)
    shield = Shield()
    for _ in range(2):
        shield.up()
        shield.up()
        shield.down()
        shield.down()
    assert signal.getsignal(signal.SIGINT) is before


def test_another_thread_leaves_the_handler_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def run() -> None:
        shield = Shield()
        shield.up()
        seen.append(signal.getsignal(signal.SIGINT))
        shield.down()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]
