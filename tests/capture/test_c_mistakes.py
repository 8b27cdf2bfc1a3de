"""What C code does wrong in a window is told by name, with its place where the header notes it."""

from __future__ import annotations

import contextlib
import ctypes
import re
import threading
import time

import pytest

from lowgraph import driver
from lowgraph.driver import gate
from lowgraph.driver.cupti import CallCount
from lowgraph.errors import DriverError
from lowgraph.memory import open_window
from tests.capture.calling_c import SOURCE, N, Two, is_counted

pytestmark = pytest.mark.both

MISTAKES = {
    "allocates": ("CaptureAllocationError", "cuMemAlloc was called by allocates in the capture"),
    "swallows": ("CaptureAllocationError", "cuMemAlloc was called by swallows in the capture"),
    "copies_at_once": ("CaptureIncomplete", "cuMemcpyHtoD was called by copies_at_once in the"),
    "loads": ("ModuleLoadDuringCapture", "cuModuleLoadData was called by loads in the capture"),
    "ends": ("CaptureRefused", "cuStreamEndCapture was called by ends in the capture window"),
    "half_astray": ("CaptureIncomplete", "half_astray sent 2 kernels, and 1 became nodes"),
    "fills_astray": ("CaptureIncomplete", "fills_astray sent 1 fill, and 0 became nodes of the"),
    "nothing": ("CaptureIncomplete", "nothing sent nothing in the capture window of 'step'"),
    "never_joins": ("CaptureFailed", "unjoined work; forked into it: a stream that lowgraph did"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_has_its_reason(two: Two, name: str) -> None:
    if not is_counted(two.rig):
        pytest.skip("no CUPTI: calls below us are not counted here")
    kind, reason = MISTAKES[name]
    said = two.refused(name)
    assert f": {kind}: " in said and reason in said, said
    step = two.step("launch")
    for _ in range(2):
        step()
    assert step.report().replays == 1, "stream and pool are as before"


UNCOUNTED = {
    # By the note of the call that failed, else by what became of the capture.
    "allocates": {
        True: "CaptureAllocationError: .*cuMemAlloc was called by allocates",
        False: "CaptureFailed: .*allocates broke the capture of 'step': it returned 900 .*include",
    },
    "swallows": {
        True: r"CaptureFailed: .*swallows broke the capture of 'step': cuLaunchKernel.* 901",
        False: r"swallows broke the capture of 'step' \(stage 'swallows \(C\)'\); let it make no",
    },
    "ends": dict.fromkeys((True, False), "ends ended the capture of 'step'"),
    "nothing": dict.fromkeys((True, False), "nothing sent nothing that became nodes"),
}


@pytest.mark.parametrize("name", UNCOUNTED)
def test_where_nothing_counts_calls(two: Two, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU without CUPTI."""
    uncounted = lambda: contextlib.nullcontext(CallCount(""))  # noqa: E731
    monkeypatch.setattr(two.rig.device, "count_calls", uncounted)
    said = two.refused(name)
    assert re.search(UNCOUNTED[name][two.library.lg_failure is not None], said), said
    step = two.step("launch")
    step()
    assert step.report().library_calls_eager_step == 1, "a launch of unknown kernels"


def test_a_failing_call_is_told_with_its_place_in_c(two: Two) -> None:
    said = two.refused("allocates")
    place = re.search(r"\(cuMemAlloc\(&scratch, 64\) at c_function\.c:(\d+) answered 900 ", said)
    if two.library.lg_failure is None:
        assert place is None
        return
    assert place is not None, said
    line = SOURCE.read_text().splitlines()[int(place[1]) - 1]
    assert "LG_CALL(cuMemAlloc, &scratch" in line


def test_a_failure_outside_a_window_is_the_drivers_error(two: Two) -> None:
    fails = two.function("fails")
    with pytest.raises(DriverError, match=r"^fails\(\) failed: 1 CUDA_ERROR_INVALID_VALUE") as seen:
        fails(two.rig.stream, two.y, two.x, 0.5, N)
    assert seen.value.code == 1 and "test_c_mistakes.py:" in str(seen.value)
    with pytest.raises(DriverError, match=r"^minus_one\(\) failed: -1 "):
        two.function("minus_one")(two.rig.stream, two.y, two.x, 0.5, N)
    noted = "c_function.c:" in str(seen.value)
    assert noted == (two.library.lg_failure is not None)
    two.function("launch")(two.rig.stream, two.y, two.x, 0.5, N)  # the note was cleared


def test_a_code_that_it_returns_in_a_window_is_a_refusal(two: Two) -> None:
    calls = iter([two.function("launch"), two.function("fails"), two.function("launch")])
    said = two.refused("launch", body=lambda s: next(calls)(s, two.y, two.x, 0.5, N))
    assert "CaptureFailed: " in said and "1 CUDA_ERROR_INVALID_VALUE" in said, said
    assert re.search(r"fails (broke the capture|failed in the capture window) of 'step': ", said)
    assert ("it returned 1" in said) == (two.library.lg_failure is None)


def test_a_code_without_a_broken_capture_is_a_refusal_too(two: Two) -> None:
    calls = iter([two.function("launch"), two.function("minus_one"), two.function("launch")])
    said = two.refused("launch", body=lambda s: next(calls)(s, two.y, two.x, 0.5, N))
    assert "minus_one failed in the capture window of 'step': it returned -1" in said


def test_another_stream_is_refused(two: Two) -> None:
    other, launch = driver.stream.create(), two.function("launch")
    said = two.refused("launch", body=lambda s: launch(other, two.y, two.x, 0.5, N))
    assert "CaptureIncomplete" in said and f"launch was given stream {other:#x} in the" in said
    driver.stream.synchronize(other)
    driver.stream.destroy(other)


@pytest.mark.parametrize("through", ["lowgraph", "the driver"])
def test_a_thread_beside_it_is_not_blamed_on_it(two: Two, through: str) -> None:
    """Waits of another thread are counted below us, too, also those that no gate of ours sees."""
    other, over = driver.stream.create(), threading.Event()
    raw = ctypes.CDLL("libcuda.so.1").cuStreamSynchronize
    raw.argtypes = [ctypes.c_uint64]
    waits = {"lowgraph": driver.stream.synchronize, "the driver": raw}[through]

    def wait() -> None:
        two.rig.device.make_current()
        while not over.is_set():
            waits(other)

    thread = threading.Thread(target=wait)
    thread.start()
    step = two.step("slow")
    try:
        for _ in range(2):
            step()
    finally:
        over.set()
        thread.join()
    assert step.report().replays == 1, two.said
    driver.stream.destroy(other)


def test_a_thread_that_begins_and_ends_beside_it_is_not_blamed_on_it(two: Two) -> None:
    """Neither a look before the call nor one after it finds that thread."""
    other, ended = driver.stream.create(), []
    raw = ctypes.CDLL("libcuda.so.1").cuStreamSynchronize
    raw.argtypes = [ctypes.c_uint64]

    def wait() -> None:
        two.rig.device.make_current()
        ended.append(raw(other))

    def company() -> None:
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()

    call = ctypes.CFUNCTYPE(None)(company)
    pointer = ctypes.c_void_p.in_dll(two.library, "meanwhile")
    pointer.value = ctypes.cast(call, ctypes.c_void_p).value
    step = two.step("in_company")
    for _ in range(2):
        step()
    assert step.report().replays == 1 and ended == [0, 0], two.said
    driver.stream.destroy(other)


@pytest.mark.parametrize("name", ["threaded", "threaded_waits"])
def test_its_own_threads_are_its_own(two: Two, name: str) -> None:
    """A thread that it started sends or waits: no thread of Python's, so that its calls count."""
    if name == "threaded":
        step = two.step(name)
        for _ in range(3):
            step()
        assert step.report().replays == 2, two.said
        return
    if not is_counted(two.rig):
        pytest.skip("nothing counts calls here")
    said = two.refused(name)
    assert "cuStreamSynchronize was called by threaded_waits in the capture" in said


def test_a_call_of_another_thread_is_no_part_of_the_pass(two: Two) -> None:
    """It neither counts nor touches the hooks of the window that is open meanwhile."""
    other, launch = driver.stream.create(), two.function("launch")
    slow, entered = two.function("slow"), threading.Event()

    def beside() -> None:
        two.rig.device.make_current()
        entered.wait(30)
        slow(other, two.y, two.x, 0.5, 1)
        slow(other, two.y, two.x, 0.5, 1)

    thread, passes = threading.Thread(target=beside), iter(range(9))

    def body(stream: int) -> None:
        launch(stream, two.y, two.x, 0.5, N)
        if next(passes) == 1:  # in the window
            entered.set()
            time.sleep(0.05)

    thread.start()
    step = two.step("launch", body=body)
    for _ in range(2):
        step()
    thread.join()
    assert step.report().replays == 1 and step.report().stages == {"launch (C)": 1}, two.said
    assert gate.observer is None and open_window.recorder() is None
    driver.stream.synchronize(other)
    driver.stream.destroy(other)
