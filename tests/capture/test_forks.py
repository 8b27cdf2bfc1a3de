"""Forks and joins: the bookkeeping agrees with a real driver, and an open fork is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cuda.bindings import driver as cu

from lowgraph import driver
from lowgraph.capture.forks import ForkTracker
from lowgraph.capture.stream_calls import stream_of
from lowgraph.capture.window import Window
from lowgraph.errors import BlockingCaptureStream, CaptureFailed, CaptureRefused, UnjoinedFork
from tests.capture.micro import BLOCKS, Micro, N
from tests.capture.test_refusals import assert_sound

TRACES = Path(__file__).parents[1] / "traces" / "h200-580.159.json"
VERBS = {"begin", "launch", "record", "record_external", "wait", "wait_external", "end",
         "capture_info", "is_capturing"}  # fmt: skip
HANDLES = {"s": 1001, "t": 1002, "u": 1003, "legacy": 0, "per_thread": 2,
           "e1": 2001, "e2": 2002, "e3": 2003}  # fmt: skip


def recorded() -> Iterator[tuple[str, list[str], int]]:
    """Scenarios of one capture on s: name, calls before its end, the end's code on an H200."""
    for scenario in json.loads(TRACES.read_text())["scenarios"]:
        calls = [(call[0], call[1]) for call in scenario["calls"]]
        verbs = [call.split() for call, _ in calls]
        names = {word for words in verbs for word in words[1:2]}
        begins = [words for words in verbs if words[0] == "begin"]
        good = all(code == 0 for call, code in calls if not call.startswith("end"))
        if {words[0] for words in verbs} <= VERBS and begins == [["begin", "s"]] and good:
            ends = [place for place, words in enumerate(verbs) if words[:2] == ["end", "s"]]
            if len(ends) == 1 and names <= HANDLES.keys() and calls[ends[0]][1] in (0, 904):
                name = f"{scenario['name']} {scenario['mode']}"
                yield name, [call for call, _ in calls[: ends[0]]], calls[ends[0]][1]


def call_of(text: str) -> tuple[str, tuple[Any, ...]] | None:
    verb, *rest = text.split()
    handles = [HANDLES[word] for word in rest if "=" not in word]
    if verb == "launch":
        return "cuLaunchHostFunc", (handles[0], 0, 0)  # any work with a stream will do
    if verb == "record":
        return "cuEventRecord", tuple(handles)
    if verb == "record_external":
        return "cuEventRecordWithFlags", (*handles, 1)
    if verb in ("wait", "wait_external"):
        return "cuStreamWaitEvent", (*handles, int(verb == "wait_external"))
    return None


SCENARIOS = {name: (calls, code) for name, calls, code in recorded()}


def test_the_traces_have_forks_of_both_outcomes() -> None:
    codes = [code for _, code in SCENARIOS.values()]
    assert codes.count(904) >= 5 and codes.count(0) >= 20


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_bookkeeping_says_what_the_driver_said(name: str) -> None:
    calls, code = SCENARIOS[name]
    tracker = ForkTracker(HANDLES["s"])
    for text in calls:
        call = call_of(text)
        if call is not None:
            tracker.follow(*call, stream_of(*call))
    assert bool(tracker.unjoined()) == (code == 904)


class Branch:
    """A second stream and two events, for a body that forks."""

    def __init__(self, micro: Micro, non_blocking: bool = True) -> None:
        self.micro = micro
        self.stream = driver.stream.create(non_blocking)
        self.events = [driver.event.create() for _ in range(2)]

    def fork(self) -> None:
        driver.event.record(self.events[0], self.micro.stream)
        driver.stream.wait_event(self.stream, self.events[0])

    def work(self) -> None:
        micro = self.micro
        micro.forward(self.stream, BLOCKS, 128, micro.y, micro.x, N)

    def join(self, external: bool = False) -> None:
        driver.event.record(self.events[1], self.stream, external=external)
        driver.stream.wait_event(self.micro.stream, self.events[1])

    def close(self) -> None:
        for event in self.events:
            driver.event.destroy(event)
        driver.stream.destroy(self.stream)


@pytest.fixture
def branch(micro: Micro) -> Iterator[Branch]:
    made = Branch(micro)
    yield made
    made.close()


def window_with(micro: Micro, *acts: Callable[[], None]) -> Window:
    window = Window(micro.stream, pool=micro.pool, label="step")
    with window:
        micro.advance(micro.stream, 1, 1, micro.counter, micro.rate)
        for act in acts:
            act()
        micro.advance(micro.stream, 1, 1, micro.counter, micro.rate)
    return window


def refused(micro: Micro, *acts: Callable[[], None]) -> UnjoinedFork:
    ends: list[str] = []

    def note(name: str, args: tuple[Any, ...], code: int) -> None:
        if name == "cuStreamEndCapture":
            ends.append(name)

    driver.gate.observer = note
    try:
        with pytest.raises(UnjoinedFork) as raised:
            window_with(micro, *acts)
    finally:
        driver.gate.observer = None
    assert ends == ["cuStreamEndCapture"], "the capture is ended once"
    assert_sound(micro)
    return raised.value


def test_a_joined_fork_is_recorded_on_both_streams(micro: Micro, branch: Branch) -> None:
    window = window_with(micro, branch.fork, branch.work, branch.join)
    assert window.recording is not None and window.recording.census.kernels == 3
    window.discard()
    assert_sound(micro)


def test_an_open_fork_is_named_with_where_it_was_forked_and_its_last_operation(
    micro: Micro, branch: Branch
) -> None:
    error = refused(micro, branch.fork, branch.work)
    said = str(error)
    line = Branch.fork.__code__.co_firstlineno + 2
    assert error.where == f"{__file__}:{line}"
    assert f"stream {branch.stream:#x}, forked at {__file__}:{line}" in said
    work = Branch.work.__code__.co_firstlineno + 2
    assert f"last did kernel forward at {__file__}:{work}" in said
    assert getattr(error.__cause__, "code", None) == 904
    assert driver.stream.capture_status(branch.stream) == "none"


def test_a_join_by_an_external_event_is_told_apart(micro: Micro, branch: Branch) -> None:
    error = refused(micro, branch.fork, branch.work, lambda: branch.join(external=True))
    join = Branch.join.__code__.co_firstlineno
    places = f"recorded at {__file__}:{join + 1}, waited for at {__file__}:{join + 2}"
    assert f"an external event joins nothing: {places}" in str(error)


def test_work_behind_the_join_opens_the_fork_again(micro: Micro, branch: Branch) -> None:
    refused(micro, branch.fork, branch.work, branch.join, branch.work)


def test_only_the_fork_that_is_open_is_named(micro: Micro, branch: Branch) -> None:
    other = Branch(micro)
    error = refused(micro, branch.fork, branch.work, other.fork, other.work, branch.join)
    assert [getattr(fork, "stream", 0) for fork in error.forks] == [other.stream]
    other.close()


def test_work_past_the_library_that_is_not_joined_is_904_with_the_forks_named(
    micro: Micro, branch: Branch
) -> None:
    def unseen() -> None:
        cu.cuMemsetD8Async(micro.y.address, 0, 4, branch.stream)

    with pytest.raises(CaptureFailed, match=r"failed: cuStreamEndCapture.* 904 ") as raised:
        window_with(micro, branch.fork, branch.join, unseen)
    line = Branch.fork.__code__.co_firstlineno + 2
    told = f"forked into it: stream {branch.stream:#x}, forked at {__file__}:{line}, with no op"
    assert told in str(raised.value)
    assert_sound(micro)


def test_an_earlier_refusal_is_told_instead(micro: Micro, branch: Branch) -> None:
    def swallow() -> None:
        with pytest.raises(CaptureRefused):
            driver.stream.synchronize(micro.stream)

    with pytest.raises(CaptureRefused, match="cuStreamSynchronize was called"):
        window_with(micro, branch.fork, swallow, branch.work)
    assert_sound(micro)


def test_a_wait_for_work_from_outside_is_refused_before_the_call(
    micro: Micro, branch: Branch
) -> None:
    with pytest.raises(CaptureRefused, match=r"event recorded outside of it, at .*test_forks\.py"):
        window_with(micro, branch.join)
    assert_sound(micro)


@pytest.mark.parametrize("stream", [0, 1, 2, None])
def test_a_fork_onto_a_blocking_stream_is_refused(micro: Micro, stream: int | None) -> None:
    branch = Branch(micro, non_blocking=False)
    blocking = branch.stream
    branch.stream = blocking if stream is None else stream
    with pytest.raises(BlockingCaptureStream, match="would be forked into the capture"):
        window_with(micro, branch.fork)
    branch.stream = blocking
    branch.close()
    assert_sound(micro)


def test_a_stream_of_another_capture_is_not_forked(micro: Micro) -> None:
    """Nor asked for its flags, which would break the other capture (900); the wait would both."""
    other, event = driver.stream.create(), driver.event.create()
    relaxed = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    assert not cu.cuStreamBeginCapture(other, relaxed)[0]  # past our gate

    def fork() -> None:
        driver.event.record(event, micro.stream)
        driver.stream.wait_event(other, event)

    with pytest.raises(CaptureRefused, match=r"in another capture.*\(902\).*in no capture"):
        window_with(micro, fork)
    assert driver.stream.capture_status(other) == "active"
    driver.graph.destroy(driver.stream.end_capture(other))
    driver.stream.destroy(other)
    driver.event.destroy(event)
