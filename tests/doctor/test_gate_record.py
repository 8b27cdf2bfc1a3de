"""The record of captures that a GPU has, from the calls that pass lowgraph's gate."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from cuda.bindings import driver as cu

from lowgraph import driver
from lowgraph.debug.doctor.driver_record import DriverRecord
from lowgraph.debug.doctor.gate_record import GateRecord
from lowgraph.driver import event, memory
from lowgraph.driver import stream as streams
from lowgraph.errors import CaptureRefused, DriverError
from tests.capture.bodies import N, Parts
from tests.support.rig import Rig


@pytest.fixture
def parts(rig: Rig) -> Iterator[Parts]:
    made = Parts(rig)
    yield made
    made.close()


@pytest.fixture
def record() -> Iterator[DriverRecord]:
    made = DriverRecord(lambda text: None)
    with GateRecord(made.on_event, lambda: False).listening():
        yield made


def test_a_capture_with_a_fork_is_counted_as_it_was_sent(
    parts: Parts, record: DriverRecord
) -> None:
    streams.begin_capture(parts.stream)
    parts.fork()
    parts.fill()
    driver.graph.destroy(streams.end_capture(parts.stream))
    (seen,) = record.captures
    assert (seen.by, seen.mode, seen.outcome) == ("lowgraph.driver", "thread_local", "recorded")
    assert seen.nodes == {"kernel": 4, "memset": 1} and seen.kernels == {"add": 4}
    assert seen.is_sound and record.leaks == []
    assert seen.began_at.startswith(f"{__file__}:")


def test_work_elsewhere_and_calls_that_only_the_mode_allows_leak(
    parts: Parts, record: DriverRecord
) -> None:
    streams.begin_capture(parts.stream, "relaxed")
    parts.add()
    parts.add(on=parts.side)
    memory.memset_d8_async(parts.y.address, 0, N, parts.side)
    streams.synchronize(parts.side)
    memory.free(memory.alloc(256))
    driver.graph.destroy(streams.end_capture(parts.stream))
    assert [(leak.kind, leak.call, leak.what) for leak in record.leaks] == [
        ("work", "cuLaunchKernelEx", "kernel add"),
        ("work", "cuMemsetD8Async", "memset"),
        ("synchronisation", "cuStreamSynchronize", "cuStreamSynchronize"),
        ("allocation", "cuMemAlloc", "cuMemAlloc"),
        ("allocation", "cuMemFree", "cuMemFree"),
    ]
    assert {leak.began_at for leak in record.leaks} == {record.captures[0].began_at}


def test_a_thread_that_chose_the_relaxed_mode_lets_its_own_calls_through(
    parts: Parts, record: DriverRecord
) -> None:
    spare = event.create()
    streams.begin_capture(parts.stream)
    parts.add()
    event.destroy(spare)  # harms no capture and is no leak
    with streams.relaxed():
        memory.free(memory.alloc(256))
    driver.graph.destroy(streams.end_capture(parts.stream))
    assert [leak.call for leak in record.leaks] == ["cuMemAlloc", "cuMemFree"]


def test_the_call_that_broke_it_and_those_behind_it(parts: Parts, record: DriverRecord) -> None:
    streams.begin_capture(parts.stream)
    for send in (lambda: memory.alloc(256), parts.add, parts.add):
        with pytest.raises(DriverError):
            send()
    with pytest.raises(DriverError):
        streams.end_capture(parts.stream)
    (seen,) = record.captures
    assert (seen.outcome, seen.code) == ("failed", 901) and not seen.is_sound
    assert seen.broken is not None
    assert (seen.broken.call, seen.broken.code) == ("cuMemAlloc", 900)
    (refused,) = [one for one in seen.refused if one is not seen.broken]
    assert (refused.call, refused.code, refused.times) == ("cuLaunchKernelEx", 901, 2)


def test_a_call_answered_901_did_not_break_it(parts: Parts, record: DriverRecord) -> None:
    """What did came past the gate; it is bisecting that finds it."""

    def body(parts: Parts) -> None:
        parts.add()
        cu.cuCtxSynchronize()
        parts.add()

    parts.run = body
    parts.step.prime()
    with pytest.raises(CaptureRefused):
        parts.step.capture()
    assert record.take_break("step") is None


def test_other_threads_are_told_apart(parts: Parts, record: DriverRecord) -> None:
    def work() -> None:
        parts.rig.device.make_current()
        parts.add(on=parts.side)

    streams.begin_capture(parts.stream)
    parts.add()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    driver.graph.destroy(streams.end_capture(parts.stream))
    assert (record.leaks, record.beside) == ([], {"kernel add": 1})


def test_a_window_of_lowgraphs_is_not_listed_but_its_break_is_kept(
    parts: Parts, record: DriverRecord
) -> None:
    parts.live(Parts.add)
    assert (record.captures, record.leaks) == ([], [])
    assert record.mode_of("step") == "thread_local"
    assert record.take_break("step") is None


def test_it_is_silent_where_the_host_device_tells(parts: Parts) -> None:
    made = DriverRecord(lambda text: None)
    with GateRecord(made.on_event, lambda: True).listening():
        streams.begin_capture(parts.stream)
        parts.add()
        driver.graph.destroy(streams.end_capture(parts.stream))
    assert made.captures == []
    assert driver.gate.observer is None
    assert event.is_done(parts.events[0])
