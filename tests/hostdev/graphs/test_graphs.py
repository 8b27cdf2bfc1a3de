"""Graphs: what replays compute, and what a launch in flight keeps."""

from __future__ import annotations

import ctypes

import pytest
from cuda.bindings import driver as cu

from lowgraph.driver import entry, event, graph, stream
from tests.hostdev.graphs.kit import COUNT, Kit, Vector, answer_of, launches, must, shape_of


def copy(kit: Kit, dst: Vector, src: Vector) -> None:
    must(cu.cuMemcpyDtoDAsync(dst.address, src.address, 4 * COUNT, kit.stream))


def fork_and_join(kit: Kit, x: Vector, a: Vector, b: Vector) -> int:
    """Capture: a += 2 beside b *= 3 on the side stream, then x = a + b."""
    forked, joined = event.create(), event.create()

    def body() -> None:
        kit.launch("add", a, 2.0)
        event.record(forked, kit.stream)
        stream.wait_event(kit.side, forked)
        kit.launch("scale", b, 3.0, on=kit.side)
        kit.launch("add", a, 1.0)
        event.record(joined, kit.side)
        stream.wait_event(kit.stream, joined)
        kit.launch("sum", x, a, b)

    captured = kit.capture(body)
    event.destroy(forked)
    event.destroy(joined)
    return captured


# ---- Replays ----
def test_a_capture_runs_nothing_and_each_replay_all(kit: Kit) -> None:
    x, y = kit.vector(1.0), kit.vector()

    def body() -> None:
        kit.launch("add", x, 2.0)
        copy(kit, y, x)
        kit.launch("scale", y, 10.0)

    executable = kit.executable(kit.capture(body))
    assert (x.value(), y.value()) == (1.0, 0.0)
    launches(executable, kit.stream, times=3)
    assert (x.value(), y.value()) == (7.0, 70.0)


def test_fork_and_join(kit: Kit) -> None:
    x, a, b = kit.vector(), kit.vector(1.0), kit.vector(1.0)
    captured = fork_and_join(kit, x, a, b)
    types, edges = shape_of(captured)
    assert types == ["kernel"] * 4
    assert edges == [(0, 1), (0, 2), (1, 3), (2, 3)]
    launches(kit.executable(captured), kit.stream, times=2)
    assert (a.value(), b.value(), x.value()) == (7.0, 9.0, 16.0)


def test_launches_of_one_executable_follow_each_other(kit: Kit) -> None:
    x = kit.vector(1.0)
    executable = kit.executable(kit.kernels("scale", "add", on=x))
    for number in range(8):
        graph.launch(executable, kit.stream if number % 2 else kit.side)
    expected = 1.0
    for _ in range(8):
        expected = expected * 2.0 + 2.0
    assert x.value() == expected


def test_a_pageable_source_is_read_at_each_replay(kit: Kit) -> None:
    x = kit.vector()
    source = (ctypes.c_float * COUNT)(*[1.0] * COUNT)
    address = ctypes.addressof(source)
    executable = kit.executable(
        kit.capture(lambda: must(cu.cuMemcpyHtoDAsync(x.address, address, 4 * COUNT, kit.stream)))
    )
    for value in (5.0, 6.0):
        source[:] = [value] * COUNT
        launches(executable, kit.stream)
        assert x.value() == value


def test_a_host_function_runs_at_each_replay(kit: Kit) -> None:
    calls: list[int] = []
    function = entry.HOST_FUNCTION(calls.append)
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    captured = kit.capture(lambda: entry.launch_host_function(kit.stream, address, 7))
    assert shape_of(captured) == (["host"], [])
    executable = kit.executable(captured)
    launches(executable, kit.stream, times=3)
    must(cu.cuCtxSynchronize())
    assert calls == [7, 7, 7]


def test_event_nodes_time_a_replay(kit: Kit) -> None:
    x = kit.vector()
    start, end = event.create(timing=True), event.create(timing=True)

    def body() -> None:
        event.record(start, kit.stream, external=True)
        kit.launch("add", x, 1.0)
        event.record(end, kit.stream, external=True)

    captured = kit.capture(body)
    assert shape_of(captured)[0] == ["event_record", "kernel", "event_record"]
    assert answer_of(cu.cuEventElapsedTime(start, end)) == 400, "nothing is recorded yet"
    launches(kit.executable(captured), kit.stream)
    must(cu.cuCtxSynchronize())
    assert event.elapsed_ms(start, end) > 0.0


# ---- In flight ----
def test_a_launch_in_flight_keeps_its_parameters(kit: Kit) -> None:
    x = kit.vector()
    captured = kit.capture(lambda: (kit.launch("hold"), kit.launch("add", x, 1.0)))
    executable = kit.executable(captured)
    params, kept = kit.node_params("add", x, 10.0)
    with kit.held():
        launches(executable, kit.stream)
        assert not stream.is_done(kit.stream)
        node = graph.nodes(captured)[1]
        must(cu.cuGraphExecKernelNodeSetParams(executable, node, params))
    assert kept
    assert x.value() == 1.0
    launches(executable, kit.stream)
    assert x.value() == 11.0


def test_an_update_leaves_the_launch_in_flight_alone(kit: Kit) -> None:
    x = kit.vector()
    first, second = (
        kit.capture(lambda value=value: (kit.launch("hold"), kit.launch("add", x, value)))
        for value in (1.0, 10.0)
    )
    executable = kit.executable(first)
    with kit.held():
        launches(executable, kit.stream)
        assert graph.update(executable, second).ok
        assert not stream.is_done(kit.stream)
    assert x.value() == 1.0
    launches(executable, kit.stream)
    assert x.value() == 11.0


def test_graph_and_executable_are_destroyed_in_flight(kit: Kit) -> None:
    x = kit.vector()
    captured = kit.capture(lambda: (kit.launch("hold"), kit.launch("add", x, 4.0)))
    executable = kit.executable(captured)
    with kit.held():
        launches(executable, kit.stream, times=2)
        graph.exec_destroy(executable)
        graph.destroy(captured)
        assert not stream.is_done(kit.stream)
    assert x.value() == 8.0


@pytest.mark.host  # a real driver reads a destroyed node as if it were there: undefined, not a rule
def test_handles_of_destroyed_objects_are_refused(kit: Kit) -> None:
    captured = kit.kernels("add", on=kit.vector())
    node = graph.nodes(captured)[0]
    executable = kit.executable(captured)
    graph.destroy(captured)
    graph.exec_destroy(executable)
    assert answer_of(cu.cuGraphDestroy(captured)) == 1
    assert answer_of(cu.cuGraphNodeGetType(node)) == 1
    assert answer_of(cu.cuGraphInstantiate(captured, 0)) == 1
    assert answer_of(cu.cuGraphLaunch(executable, kit.stream)) == 1
    assert answer_of(cu.cuGraphExecDestroy(executable)) == 1
