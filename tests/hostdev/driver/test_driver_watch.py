"""The host device tells of captures: what happened, by which call, in the thread that made it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator

import pytest
from cuda.bindings import driver as cu

from lowgraph.hostdev import control, watch
from lowgraph.hostdev.watch import CaptureEvent
from tests.hostdev.driver.kit import Kit, code_of, must
from tests.support.process import output_of

pytestmark = pytest.mark.host

_MODES = cu.CUstreamCaptureMode
LOCAL = _MODES.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
RELAXED = _MODES.CU_STREAM_CAPTURE_MODE_RELAXED


@pytest.fixture
def events() -> Iterator[list[CaptureEvent]]:
    seen: list[CaptureEvent] = []
    with watch.listening(seen.append):
        yield seen


def told(events: list[CaptureEvent]) -> list[tuple[str, str, str, int]]:
    return [(one.kind, one.call, one.what, one.code) for one in events]


def test_a_good_capture_is_begun_and_ended_with_its_nodes(
    kit: Kit, events: list[CaptureEvent]
) -> None:
    x, stream = kit.alloc(256), kit.stream()
    must(cu.cuStreamBeginCapture(stream, LOCAL))
    for _ in range(2):
        must(cu.cuMemsetD8Async(x, 0, 256, stream))
    must(cu.cuGraphDestroy(must(cu.cuStreamEndCapture(stream))))
    assert told(events) == [
        ("begun", "cuStreamBeginCapture", "thread_local", 0),
        ("ended", "cuStreamEndCapture", "2 memset\n", 0),
    ]
    assert {(one.capture, one.stream, one.own) for one in events} == {
        (events[0].capture, int(stream), True)
    }


def test_the_break_the_refusals_behind_it_and_the_end(kit: Kit, events: list[CaptureEvent]) -> None:
    x, stream = kit.alloc(256), kit.stream()
    must(cu.cuStreamBeginCapture(stream, LOCAL))
    assert code_of(cu.cuStreamBeginCapture(stream, LOCAL)) == 401  # harms nothing
    assert code_of(cu.cuMemAlloc(256)) == 900
    assert code_of(cu.cuMemsetD8Async(x, 0, 256, stream)) == 901
    assert code_of(cu.cuCtxSynchronize()) == 900
    assert code_of(cu.cuStreamEndCapture(stream)) == 901
    assert told(events)[1:] == [
        ("refused", "cuStreamBeginCapture", "", 401),
        ("broken", "cuMemAlloc", "", 900),
        ("refused", "cuMemsetD8Async", "", 901),
        ("refused", "cuCtxSynchronize", "", 900),
        ("ended", "cuStreamEndCapture", "", 901),
    ]


def test_work_that_runs_elsewhere_and_what_only_the_mode_allows(
    kit: Kit, events: list[CaptureEvent]
) -> None:
    x, stream, other = kit.alloc(256), kit.stream(), kit.stream()
    must(cu.cuMemsetD8(x, 0, 256))  # nobody captures
    must(cu.cuStreamBeginCapture(stream, RELAXED))
    must(cu.cuMemsetD8Async(x, 0, 256, other))
    must(cu.cuMemsetD8(x, 0, 256))
    must(cu.cuMemFree(must(cu.cuMemAlloc(256))))
    must(cu.cuMemsetD8Async(x, 0, 256, stream))
    must(cu.cuGraphDestroy(must(cu.cuStreamEndCapture(stream))))
    assert told(events)[1:-1] == [
        ("elsewhere", "cuMemsetD8Async", "memset", 0),
        ("elsewhere", "cuMemsetD8", "memset", 0),
        ("let through", "cuMemAlloc", "", 0),
        ("let through", "cuMemFree", "", 0),
    ]
    assert [one.stream for one in events[1:3]] == [int(other), 1]


def test_another_thread_is_told_apart_and_hears_of_it_itself(kit: Kit) -> None:
    stream, heard = kit.stream(), []

    def listener(event: CaptureEvent) -> None:
        heard.append((event.kind, event.own, threading.current_thread().name))

    def wait() -> None:
        must(cu.cuCtxSetCurrent(context))
        assert code_of(cu.cuCtxSynchronize()) == 900

    context = must(cu.cuCtxGetCurrent())
    with watch.listening(listener):
        must(cu.cuStreamBeginCapture(stream, LOCAL))
        thread = threading.Thread(target=wait, name="waiter")
        thread.start()
        thread.join()
        assert code_of(cu.cuStreamEndCapture(stream)) == 901
    assert heard[1] == ("broken", False, "waiter")


def test_what_ended_it_is_told_behind_what_another_thread_did_to_it(kit: Kit) -> None:
    """That thread has broken it and is slow to tell."""
    stream, told, slow = kit.stream(), [], threading.Event()

    def listener(event: CaptureEvent) -> None:
        if event.kind == "broken":
            slow.set()
            time.sleep(0.1)
        told.append(event.kind)

    def wait() -> None:
        must(cu.cuCtxSetCurrent(context))
        assert code_of(cu.cuCtxSynchronize()) == 900

    context = must(cu.cuCtxGetCurrent())
    with watch.listening(listener):
        must(cu.cuStreamBeginCapture(stream, LOCAL))
        thread = threading.Thread(target=wait)
        thread.start()
        assert slow.wait(30)
        assert code_of(cu.cuStreamEndCapture(stream)) == 901
        thread.join()
    assert told == ["begun", "broken", "ended"]


def test_a_call_that_waits_tells_of_itself(kit: Kit) -> None:
    """Calls of another thread meanwhile, which nothing happened to, do not tell in its place."""
    x, stream, gate = kit.alloc(256), kit.stream(), threading.Event()
    told: list[tuple[str, str]] = []

    def listener(event: CaptureEvent) -> None:
        if event.call == "cuMemcpyDtoH":
            told.append((event.kind, threading.current_thread().name))

    def read() -> None:
        must(cu.cuCtxSetCurrent(context))
        must(cu.cuMemcpyDtoH(bytearray(256), x, 256))

    context, before = must(cu.cuCtxGetCurrent()), control.calls("cuMemcpyDtoH")
    with watch.listening(listener):
        must(cu.cuStreamBeginCapture(stream, LOCAL))
        kit.call_host(0, gate.wait)
        thread = threading.Thread(target=read, name="reader")
        thread.start()
        while control.calls("cuMemcpyDtoH") == before:
            time.sleep(0.001)
        for _ in range(20):  # it is in the call, and soon waits for the legacy stream
            must(cu.cuStreamIsCapturing(stream))
            time.sleep(0.001)
        gate.set()
        thread.join()
        must(cu.cuGraphDestroy(must(cu.cuStreamEndCapture(stream))))
    assert told == [("elsewhere", "reader")]


def test_the_callers_frame_is_on_the_stack_and_the_driver_may_be_called(kit: Kit) -> None:
    stream, frames = kit.stream(), []

    def listener(event: CaptureEvent) -> None:
        frame = sys._getframe(1)
        while frame.f_code.co_filename == watch.__file__:
            assert frame.f_back is not None
            frame = frame.f_back
        frames.append((frame.f_code.co_name, int(must(cu.cuStreamIsCapturing(stream)))))

    with watch.listening(listener):
        must(cu.cuStreamBeginCapture(stream, LOCAL))
        must(cu.cuGraphDestroy(must(cu.cuStreamEndCapture(stream))))
    name = "test_the_callers_frame_is_on_the_stack_and_the_driver_may_be_called"
    assert frames == [(name, 1), (name, 0)]


def test_a_stream_that_is_destroyed_ends_its_capture(kit: Kit, events: list[CaptureEvent]) -> None:
    stream = must(cu.cuStreamCreate(1))
    must(cu.cuStreamBeginCapture(stream, LOCAL))
    must(cu.cuStreamDestroy(stream))
    assert [(one.kind, one.call) for one in events[1:]] == [
        ("broken", "cuStreamDestroy"),
        ("ended", "cuStreamDestroy"),
    ]


def test_nobody_is_told_after_the_block(kit: Kit) -> None:
    stream = kit.stream()
    outer: list[CaptureEvent] = []
    inner: list[CaptureEvent] = []
    with watch.listening(outer.append):
        with watch.listening(inner.append):
            must(cu.cuStreamBeginCapture(stream, LOCAL))
        must(cu.cuGraphDestroy(must(cu.cuStreamEndCapture(stream))))
    must(cu.cuStreamBeginCapture(stream, LOCAL))
    must(cu.cuGraphDestroy(must(cu.cuStreamEndCapture(stream))))
    assert ([one.kind for one in inner], [one.kind for one in outer]) == (["begun"], ["ended"])


def test_a_library_that_is_loaded_later_tells_too() -> None:
    """The doctor listens before the script opens a device."""
    out = output_of(
        "from lowgraph.hostdev import watch\n"
        "seen = []\n"
        "with watch.listening(seen.append):\n"
        "    from lowgraph import driver, open_device\n"
        "    open_device('host')\n"
        "    stream = driver.stream.create()\n"
        "    driver.stream.begin_capture(stream)\n"
        "    driver.stream.end_capture(stream)\n"
        "print([one.kind for one in seen])\n"
    )
    assert out.strip() == "['begun', 'ended']"
