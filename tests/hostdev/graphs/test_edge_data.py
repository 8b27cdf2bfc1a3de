"""Events that a launch names, and what of edge data and such events no recording answers."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from cuda.bindings import driver as cu

from tests.hostdev.graphs.kit import Kit, answer_of, launches, must
from tests.traces import proc
from tests.traces.verbs_edges import NEW, OLD, ROOM, Edge

pytestmark = pytest.mark.host
NOT_SUPPORTED, BAD_HANDLE, NOT_READY = 801, 400, 600
_ID = cu.CUlaunchAttributeID
TRIGGER = _ID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT
START = _ID.CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT


def _attribute(kind: Any, event: Any, flags: int = 0, at_start: int = 0) -> Any:
    made = cu.CUlaunchAttribute()
    made.id = kind
    if kind == TRIGGER:
        made.value.programmaticEvent.event = event
        made.value.programmaticEvent.flags = flags
        made.value.programmaticEvent.triggerAtBlockStart = at_start
    else:
        made.value.launchCompletionEvent.event = event
        made.value.launchCompletionEvent.flags = flags
    return made


def _launch(kit: Kit, attribute: Any, name: str, *values: Any) -> int:
    params, kept = kit.node_params(name, *values)
    config = cu.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = params.gridDimX, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = params.blockDimX, 1, 1
    config.hStream, config.attrs, config.numAttrs = kit.stream, [attribute], 1
    code = answer_of(cu.cuLaunchKernelEx(config, params.func, params.kernelParams, 0))
    assert kept, "the driver copies the values at the call"
    return code


def _edge(owner: int, first: Any, second: Any, edge: Edge) -> int:
    ends = [(ctypes.c_void_p * 1)(int(node)) for node in (first, second)]
    held = proc.pointer(owner), *ends, ctypes.byref(edge), proc.size(1)
    return proc.call("cuGraphAddDependencies", NEW, *held)


@pytest.fixture
def event() -> Any:
    made = must(cu.cuEventCreate(cu.CUevent_flags.CU_EVENT_DISABLE_TIMING))
    yield made
    must(cu.cuEventDestroy(made))


@pytest.mark.parametrize("kind", [TRIGGER, START])
def test_an_event_of_a_launch_waits_for_its_end(kit: Kit, event: Any, kind: Any) -> None:
    x = kit.vector(1.0)
    with kit.held():
        kit.launch("hold")
        assert _launch(kit, _attribute(kind, event), "add", x, 2.0) == 0
        assert answer_of(cu.cuEventQuery(event)) == NOT_READY
    assert answer_of(cu.cuEventSynchronize(event)) == 0
    assert x.value() == 3.0


def test_a_kernel_behind_anothers_trigger_runs_behind_its_end(kit: Kit) -> None:
    """The one that was made last is the one to run first: nothing but the edge says so."""
    owner, x = kit.new_graph(), kit.vector(1.0)
    params, kept = kit.node_params("scale", x, 5.0)
    later = must(cu.cuGraphAddKernelNode(owner, [], 0, params))
    params, kept = kit.node_params("add", x, 2.0)
    sooner = must(cu.cuGraphAddKernelNode(owner, [], 0, params))
    assert kept, "the driver copies the values at the call"
    assert _edge(owner, sooner, later, Edge(1, 0, 1)) == 0
    launches(kit.executable(owner), kit.stream)
    assert x.value() == (1.0 + 2.0) * 5.0


@pytest.mark.parametrize("plain_first", [True, False])
def test_a_node_waited_for_by_two_edges_has_the_plain_one(
    kit: Kit, event: Any, plain_first: bool
) -> None:
    x, plain = kit.vector(1.0), must(cu.cuEventCreate(0))

    def both() -> None:
        assert _launch(kit, _attribute(TRIGGER, event), "add", x, 2.0) == 0
        must(cu.cuEventRecord(plain, kit.stream))
        for one in (plain, event) if plain_first else (event, plain):
            must(cu.cuStreamWaitEvent(kit.side, one, 0))
        kit.launch("add", x, 2.0, on=kit.side)
        must(cu.cuEventRecord(plain, kit.side))
        must(cu.cuStreamWaitEvent(kit.stream, plain, 0))

    owner = kit.capture(both)
    ends = [(ctypes.c_void_p * ROOM)() for _ in range(2)]
    count = ctypes.c_size_t(ROOM)
    held = proc.pointer(owner), *ends, ctypes.byref(count)
    assert proc.call("cuGraphGetEdges", OLD, *held) == 0, "402 if one were not plain"
    assert count.value == 1
    must(cu.cuEventDestroy(plain))


def test_events_of_launches_that_were_not_recorded_are_refused(kit: Kit, event: Any) -> None:
    """And the capture goes on."""
    x = kit.vector(1.0)

    def refused() -> None:
        assert _launch(kit, _attribute(TRIGGER, event, 0, 1), "add", x, 2.0) == NOT_SUPPORTED
        assert _launch(kit, _attribute(TRIGGER, event, 1), "add", x, 2.0) == NOT_SUPPORTED
        assert _launch(kit, _attribute(START, event, 1), "add", x, 2.0) == NOT_SUPPORTED
        assert _launch(kit, _attribute(START, cu.CUevent(0)), "add", x, 2.0) == BAD_HANDLE
        kit.launch("add", x, 7.0)

    launches(kit.executable(kit.capture(refused)), kit.stream)
    assert x.value() == 8.0


def test_a_plain_edge_from_a_kernels_start_to_no_kernel_is_refused(kit: Kit) -> None:
    owner, x = kit.new_graph(), kit.vector(1.0)
    params, kept = kit.node_params("add", x, 2.0)
    first = must(cu.cuGraphAddKernelNode(owner, [], 0, params))
    second = must(cu.cuGraphAddEmptyNode(owner, [], 0))
    assert kept
    assert _edge(owner, first, second, Edge(2, 0, 0)) == NOT_SUPPORTED
    assert _edge(owner, first, second, Edge(2, 0, 1)) == 1, (
        "a programmatic one is known to be wrong"
    )
