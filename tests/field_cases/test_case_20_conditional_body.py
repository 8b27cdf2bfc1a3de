"""Case 20: an allocation or another illegal node in a conditional body: error 1, nothing else."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cuda.bindings import driver as bindings

from lowgraph import driver
from lowgraph.capture import HostCall, Phase
from lowgraph.errors import ConditionalBodyInvalid, DriverError
from lowgraph.memory import open_window
from tests.capture.looping import Looping, gain
from tests.field_cases.bare import Bare, types_of
from tests.support.rig import Rig

FILE = Path(__file__).name
BYTES = 1 << 16


@pytest.fixture
def looping(rig: Rig) -> Iterator[Looping]:
    made = Looping(rig)
    yield made
    made.close()


def test_bare_instantiate_answers_1_and_nothing_else(bare: Bare) -> None:
    inner = bare.new_stream()
    bodies: list[int] = []

    def conditional() -> None:
        graph = driver.stream.capture_graph(bare.stream)
        assert graph is not None
        handle = driver.conditional.create_handle(graph, 1)
        bodies.extend(driver.conditional.add_to_capture(bare.stream, handle, "if").bodies)
        driver.conditional.begin_body(inner, bodies[0])
        assert not bindings.cuMemAllocAsync(BYTES, inner)[0], "the capture takes it"
        driver.stream.end_capture(inner)  # and ends well

    graph = bare.record(conditional)
    assert types_of(graph) == {"conditional": 1} and types_of(bodies[0]) == {"mem_alloc": 1}
    with pytest.raises(DriverError) as raised:
        bare.instantiate(graph)
    assert raised.value.code == 1


def _async_alloc(looping: Looping, stream: int) -> None:
    driver.gate.call(bindings.cuMemAllocAsync, BYTES, stream)


def _host_call(looping: Looping, stream: int) -> None:
    HostCall(lambda: None, "log").enqueue(stream)


def _event_record(looping: Looping, stream: int) -> None:
    event = driver.event.create()
    try:
        driver.gate.call(bindings.cuEventRecordWithFlags, event, stream, 1)
    finally:
        driver.event.destroy(event)


def _pageable(looping: Looping, stream: int) -> None:
    source = (ctypes.c_char * 4)()
    driver.memory.copy_htod_async(looping.limit.address, ctypes.addressof(source), 4, stream)


BEFORE_THE_DRIVER = {
    _async_alloc: ("mem_alloc", "cuMemAllocAsync", "no body can allocate or free"),
    _host_call: ("host", "cuLaunchHostFunc", "no body can call the host"),
    _event_record: ("event_record", "cuEventRecordWithFlags", "external event"),
    _pageable: ("memcpy", "cuMemcpyHtoDAsync", "device and pinned memory only"),
}


@pytest.mark.parametrize("act", BEFORE_THE_DRIVER, ids=lambda act: act.__name__.strip("_"))
def test_it_is_refused_before_the_driver_sees_it(
    looping: Looping, act: Callable[[Looping, int], None]
) -> None:
    kind, label, rule = BEFORE_THE_DRIVER[act]
    seen: list[tuple[str, str]] = []

    def inside(stream: int) -> None:
        if open_window.mine() is None:
            return
        looping.add(stream, 1, 1, looping.sum, 0)
        try:
            act(looping, stream)
        finally:
            seen.append((driver.stream.capture_status(looping.stream), str(types_now(stream))))

    refusal = refusal_of(looping, inside)
    assert (refusal.node, refusal.type, refusal.label) == (1, kind, label)
    assert rule in refusal.rule and rule in str(refusal) and refusal.remedy in str(refusal)
    assert "node 1 of the while body of 'countdown'" in str(refusal)
    assert re.search(rf"{re.escape(FILE)}:\d+$", refusal.where or "")
    # The parent's capture is valid, and the body has the kernel before it and nothing else.
    assert seen == [("active", "{'kernel': 1}")]


def types_now(stream: int) -> dict[str, int]:
    graph = driver.stream.capture_graph(stream)
    assert graph is not None
    return types_of(graph)


def test_a_node_of_somebody_else_is_found_before_instantiate(looping: Looping) -> None:
    """Past our gate it becomes a node; the body is looked at when it ends."""

    def inside(stream: int) -> None:
        if open_window.mine() is not None:
            assert not bindings.cuMemAllocAsync(BYTES, stream)[0]

    made: list[str] = []
    driver.gate.observer = lambda op, args, code: made.append(op)
    try:
        refusal = refusal_of(looping, inside)
    finally:
        driver.gate.observer = None
    assert (refusal.node, refusal.type) == (0, "mem_alloc")
    assert "looping.py:" in (refusal.where or ""), "the line of the run_while"
    assert "did not come through lowgraph" in refusal.label
    before = made[: made.index("cuGraphInstantiate")] if "cuGraphInstantiate" in made else made
    # The refused body's and the refused window's; the third is the good body's, once it was copied.
    assert before.count("cuGraphDestroy") == 3, "the refused graph was never instantiated"


def refusal_of(looping: Looping, inside: Callable[[int], object]) -> ConditionalBodyInvalid:
    """The refusal of the step with that in its loop; the step without is recorded afterwards."""
    looping.inside = inside
    step = looping.step()
    step()
    with pytest.raises(ConditionalBodyInvalid) as raised:
        step.capture()
    assert step.report().refusals == 1 and driver.stream.capture_status(looping.stream) == "none"
    looping.inside = lambda stream: None
    step()
    step()
    assert step.phase is Phase.READY, step.report().text()
    assert looping.total() == 3 * gain(5)
    return raised.value


def test_a_legal_loop_counts_to_a_number_in_device_memory(looping: Looping) -> None:
    step = looping.step()
    step()  # unrecorded
    assert looping.total() == gain(5)
    expected = gain(5)
    for limit in (5, 5, 1, 31, 0, 257):
        looping.set(looping.limit, limit)
        step()
        expected += gain(limit)
        assert looping.total() == expected, limit
    report = step.report()
    assert step.phase is Phase.READY and (report.captures, report.replays) == (1, 6)
    assert report.nodes_by_type == {"kernel": 3, "conditional": 1}
    assert report.launches_replay_step == 1
    assert "4 nodes and 2 in bodies, kernels among them: 5" in report.text()
