"""Case 7: another thread polls or synchronises, and the capture fails at an innocent launch."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from cuda.bindings import driver as bindings

from lowgraph import driver
from lowgraph.capture import Phase
from lowgraph.driver import captures, gate
from lowgraph.errors import CaptureFailed, CaptureInProgress
from lowgraph.memory import open_window
from tests.capture.micro import Micro
from tests.field_cases.bare import BLOCK, GRID, INVALIDATED, NOT_PERMITTED, Bare, N, foreign
from tests.field_cases.remedy import refusal_of
from tests.support.codes import code_of
from tests.support.interleave import lock_asked_for

FILE = Path(__file__).name


def _poll(bare: Bare, event: int) -> object:
    return bare.in_thread(lambda: code_of(lambda: driver.event.is_done(event)), "watchdog")


@pytest.mark.parametrize(("mode", "code"), [("global", NOT_PERMITTED), ("thread_local", 0)])
def test_bare_a_polling_thread_kills_a_global_capture_only(
    bare: Bare, mode: str, code: int
) -> None:
    fill, out = bare.kernel("fill"), bare.rig.empty(N)
    event = bare.new_event()
    driver.event.record(event, bare.stream)
    bare.rig.sync()
    answers: list[object] = []

    def watched() -> None:
        fill(bare.stream, GRID, BLOCK, out, 1.0, N)
        answers.append(_poll(bare, event))
        answers.append(code_of(lambda: fill(bare.stream, GRID, BLOCK, out, 2.0, N)))

    assert bare.end_code(watched, mode) == (INVALIDATED if code else 0)
    assert answers == [code, INVALIDATED if code else 0], "the failing launch is innocent"


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_bare_a_context_synchronize_kills_every_capture(bare: Bare, mode: str) -> None:
    codes: list[object] = []

    def synchronized() -> None:
        codes.append(bare.in_thread(lambda: foreign("cuCtxSynchronize"), "watchdog"))

    assert bare.end_code(synchronized, mode) == INVALIDATED
    assert codes == [NOT_PERMITTED]


def test_our_default_mode_is_not_disturbed_by_a_poll(micro: Micro, bare: Bare) -> None:
    event = bare.new_event()
    driver.event.record(event, micro.stream)
    micro.rig.sync()
    answers: list[object] = []
    micro.extra = lambda number: (
        answers.append(_poll(bare, event)) if open_window.mine() is not None else None
    )
    step = micro.step()
    step()
    step()
    assert answers == [0] and step.phase is Phase.READY


def _context_synchronize() -> int:
    return code_of(lambda: gate.call(bindings.cuCtxSynchronize))


def test_a_context_synchronize_of_a_thread_waits_for_the_window(micro: Micro) -> None:
    """It would break the capture in every mode; through us it goes ahead when that is over."""
    answers: list[tuple[int, bool]] = []
    threads: list[threading.Thread] = []

    def synchronize() -> None:
        micro.rig.device.make_current()
        answers.append((_context_synchronize(), open_window.current() is None))

    def begin(number: int) -> None:
        if open_window.mine() is not None:
            threads.append(threading.Thread(target=synchronize, name="watchdog"))
            with lock_asked_for() as asked:
                threads[0].start()
                assert asked.wait(30), "it waits for nobody"
            threads[0].join(0.02)
            assert threads[0].is_alive() and answers == []

    micro.extra = begin
    step = micro.step()
    step()
    step()
    threads[0].join(60)
    assert answers == [(0, True)] and step.phase is Phase.READY
    assert micro.state() == micro.expected(2)


def test_a_body_that_waits_for_that_thread_is_told_instead_of_hanging(
    micro: Micro, bare: Bare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captures.LOCK, "patience", 0.1)
    told: list[str] = []

    def synchronize() -> int:
        try:
            return _context_synchronize()
        except CaptureInProgress as error:
            told.append(str(error))
            return -1

    micro.extra = lambda number: (
        told.append(f"code {bare.in_thread(synchronize, 'watchdog')}")
        if open_window.mine() is not None
        else None
    )
    step = micro.step()
    step()
    step()
    assert step.phase is Phase.READY and told[1] == "code -1"
    for part in ("cuCtxSynchronize", "thread 'watchdog'", "the capture of 'step'", FILE):
        assert part in told[0], told[0]


def test_a_901_lists_the_calls_of_other_threads_as_suspects(micro: Micro, bare: Bare) -> None:
    """The guilty call went past us; what else that thread did is what points at it."""
    event = bare.new_event()

    def watch() -> int:
        driver.event.is_done(event)
        return foreign("cuCtxSynchronize")

    def watched() -> None:
        assert bare.in_thread(watch, "watchdog") == NOT_PERMITTED

    refusal = refusal_of(micro, watched, CaptureFailed)
    text = str(refusal)
    for part in ("901", "by a call that is not in its journal", "watchdog", "cuEventQuery", FILE):
        assert part in text, text
    assert refusal.remedy
