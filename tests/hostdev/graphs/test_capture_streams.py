"""Captures over several streams and threads: forks, joins, events, whose end counts."""

from __future__ import annotations

import pytest
from cuda.bindings import driver as cu

from tests.hostdev.graphs.kit import answer_of
from tests.hostdev.graphs.world import MODES, CaptureWorld, expect

LEGACY = cu.CUstream(0)


@pytest.mark.parametrize("mode", MODES)
def test_a_launch_of_another_thread_is_recorded(world: CaptureWorld, mode: str) -> None:
    world.begin(mode)
    assert world.elsewhere(lambda: world.launch(world.stream)) == 0
    assert world.end() == (0, 2)


@pytest.mark.parametrize(("mode", "code"), [("global", 908), ("thread_local", 908), ("relaxed", 0)])
def test_end_by_another_thread(world: CaptureWorld, mode: str, code: int) -> None:
    world.begin(mode)
    assert world.elsewhere(lambda: world.end()[0]) == code
    assert world.status() == "none"
    assert world.end() == (401, None)


@pytest.mark.parametrize("mode", MODES)
def test_a_fork_must_be_joined(world: CaptureWorld, mode: str) -> None:
    world.begin(mode)
    cu.cuEventRecord(world.event, world.stream)
    assert answer_of(cu.cuStreamWaitEvent(world.other, world.event, 0)) == 0
    assert world.launch(world.other) == 0
    assert world.end() == (904, None)


@pytest.mark.parametrize(("flag", "code"), [(0, 0), (1, 904)])
def test_an_external_record_joins_nothing(world: CaptureWorld, flag: int, code: int) -> None:
    world.begin("thread_local")
    cu.cuEventRecord(world.event, world.stream)
    cu.cuStreamWaitEvent(world.other, world.event, 0)
    world.launch(world.other)
    assert answer_of(cu.cuEventRecordWithFlags(world.never, world.other, flag)) == 0
    assert answer_of(cu.cuStreamWaitEvent(world.stream, world.never, 0)) == 0
    assert world.end()[0] == code


def test_two_captures_do_not_merge(world: CaptureWorld) -> None:
    world.begin("relaxed")
    cu.cuStreamBeginCapture(world.other, cu.CUstreamCaptureMode(2))
    cu.cuEventRecord(world.event, world.other)
    assert answer_of(cu.cuStreamWaitEvent(world.stream, world.event, 0)) == 902
    assert world.status() == "invalidated"
    assert answer_of(cu.cuStreamEndCapture(world.other)) == 901


def test_a_joined_stream_cannot_end_the_capture(world: CaptureWorld) -> None:
    world.begin("thread_local")
    cu.cuEventRecord(world.event, world.stream)
    cu.cuStreamWaitEvent(world.other, world.event, 0)
    assert answer_of(cu.cuStreamEndCapture(world.other)) == 903
    assert world.end() == (901, None)


@pytest.mark.parametrize("mode", MODES)
def test_an_event_of_an_ended_capture_is_no_event(world: CaptureWorld, mode: str) -> None:
    world.begin(mode)
    cu.cuEventRecord(world.event, world.stream)
    assert world.end() == (0, 1)
    assert answer_of(cu.cuStreamWaitEvent(world.other, world.event, 0)) == 1
    assert answer_of(cu.cuEventQuery(world.event)) == 1
    world.begin(mode)
    assert answer_of(cu.cuEventQuery(world.event)) == 1
    expect(world, answer_of(cu.cuStreamWaitEvent(world.stream, world.event, 0)), "1!")


def test_a_relaxed_thread_may_make_unsafe_calls(world: CaptureWorld) -> None:
    relaxed = cu.CUstreamCaptureMode(MODES["relaxed"])
    world.begin("global")
    code, before = cu.cuThreadExchangeStreamCaptureMode(relaxed)
    try:
        assert (int(code), int(before)) == (0, MODES["global"])
        expect(world, answer_of(cu.cuEventQuery(world.before)), "0")
    finally:
        cu.cuThreadExchangeStreamCaptureMode(before)


def test_begin_on_the_legacy_stream(world: CaptureWorld) -> None:
    mode = cu.CUstreamCaptureMode(MODES["relaxed"])
    assert answer_of(cu.cuStreamBeginCapture(LEGACY, mode)) == 900
    assert answer_of(cu.cuStreamEndCapture(LEGACY)) == 401


def test_capture_info_names_the_graph_and_the_tail(world: CaptureWorld) -> None:
    world.begin("thread_local")
    _, _, identity, graph, tail, *_, count = cu.cuStreamGetCaptureInfo(world.stream)
    assert int(identity) > 0
    assert count == 1
    nodes = cu.cuGraphGetNodes(graph, 1)[1]
    assert [int(node) for node in tail[:count]] == [int(node) for node in nodes]
    assert answer_of(cu.cuGraphDestroy(graph)) == 401, "the capture owns its graph"
    assert world.end() == (0, 1)
