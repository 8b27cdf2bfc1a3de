"""The registry of open captures: what a 906 tells, and the lock that frees share with begins."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from cuda.bindings import driver as cu

from lowgraph import driver
from lowgraph.driver import captures
from lowgraph.errors import CaptureError, CaptureInProgress
from tests.support.rig import Rig


@pytest.fixture
def blocking(rig: Rig) -> Iterator[int]:
    stream = driver.stream.create(non_blocking=False)
    yield stream
    driver.stream.destroy(stream)


def test_906_anywhere_names_the_open_capture_its_thread_and_where_it_began(
    rig: Rig, blocking: int
) -> None:
    buffer = rig.empty(16)
    seen: list[BaseException] = []

    def innocent() -> None:
        rig.device.make_current()
        try:
            driver.gate.call(cu.cuMemsetD8, buffer.address, 0, 16)
        except CaptureError as error:
            seen.append(error)

    begin = threading.current_thread().name
    driver.stream.begin_capture(blocking)
    thread = threading.Thread(target=innocent, name="innocent")
    thread.start()
    thread.join()
    with pytest.raises(CaptureError, match="901"):
        driver.stream.end_capture(blocking)
    assert isinstance(seen[0], CaptureError) and seen[0].code == 906
    assert f"the capture of 'stream {blocking:#x}' on stream {blocking:#x}" in str(seen[0])
    assert f"by thread {begin!r} at {__file__}:" in str(seen[0])


def test_a_906_with_no_capture_of_ours_says_so() -> None:
    error = driver.gate.failure("cuMemsetD8", (), 906, None)
    assert "no capture that lowgraph began is open" in str(error)


def test_the_registry_forgets_a_capture_at_its_end_whatever_its_code(rig: Rig) -> None:
    driver.stream.begin_capture(rig.stream)
    assert f"{rig.stream:#x}" in captures.describe()
    assert int(cu.cuCtxSynchronize()[0]) == 900
    with pytest.raises(CaptureError):
        driver.stream.end_capture(rig.stream)
    assert captures.describe() == "no capture that lowgraph began is open"


def holding(lock: captures.CaptureLock, window: captures.OpenCapture | None) -> threading.Event:
    """A thread that holds the lock, with a window if one is given, until the event is set."""
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            captures.set_window(window)
            held.set()
            release.wait(10)
            captures.set_window(None)

    threading.Thread(target=hold, name="holder").start()
    assert held.wait(10)
    return release


def test_the_lock_is_reentrant_and_waits_for_a_window_only_so_long() -> None:
    lock = captures.CaptureLock(patience=0.05)
    with lock, lock:
        pass
    release = holding(lock, captures.OpenCapture("train", 7, "user.py:3"))
    try:
        begin = time.monotonic()
        with pytest.raises(
            CaptureInProgress, match=r"cuMemFree in .*'train' .*user\.py:3.*0\.05 s"
        ):
            lock.acquire("cuMemFree")
        assert time.monotonic() - begin >= 0.05
    finally:
        release.set()
    with lock:
        pass


def test_what_holds_the_lock_without_a_window_is_waited_out() -> None:
    lock = captures.CaptureLock(patience=0.01)
    release = holding(lock, None)
    threading.Timer(0.1, release.set).start()
    with lock:
        assert release.is_set()


def test_an_unsafe_call_is_in_flight_while_it_runs_and_not_after() -> None:
    seen: list[object] = []

    def cuStreamQuery(handle: int) -> tuple[cu.CUresult]:
        seen.append(captures.in_flight.get(threading.get_ident()))
        return (cu.CUresult.CUDA_SUCCESS,)

    def cuEventRecord(handle: int) -> tuple[cu.CUresult]:
        seen.append(captures.in_flight.get(threading.get_ident()))
        return (cu.CUresult.CUDA_SUCCESS,)

    driver.gate.call(cuStreamQuery, 5)
    driver.gate.call(cuEventRecord, 5)
    assert seen == [("cuStreamQuery", (5,)), None]
    assert threading.get_ident() not in captures.in_flight
