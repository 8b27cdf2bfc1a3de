"""Calls in which the real driver ends the process: the host device answers, and lives on.

The recordings have the scenarios as `left_out`; docs/host-device.md lists the codes, which are this
device's own choice.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cuda.bindings import driver as cu

from lowgraph.driver import Device, conditional, gate, graph, stream
from lowgraph.errors import DriverError
from lowgraph.hostdev import control
from tests.hostdev.graphs.conditional_kit import ConditionalKit
from tests.support.rig import Rig
from tests.traces.record import recordings
from tests.traces.runner import run
from tests.traces.world import module_image

pytestmark = pytest.mark.host

INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE, ILLEGAL_STATE = 1, 201, 400, 401
ILLEGAL_ADDRESS, LOST_BODY = 700, 999
# The call that says it, the last that reads so, and the code, by the scenario's name.
ANSWERS = {
    "conditional capture: an allocation call while both are open": ("end s g", LOST_BODY),
    "conditional capture: a wait for the body's stream": ("end s g", LOST_BODY),
    "conditional capture: a wait in the body for an event of the parent": ("end s g", LOST_BODY),
    "conditional capture: a body that is not joined": ("end s g", LOST_BODY),
    "conditional capture: an illegal launch in the body": ("end s g", LOST_BODY),
    "conditional tangle: the parent lost while a body records": ("end t", 901),
    "conditional tangle: the graph destroyed while a body records": (
        "graph_destroy g",
        ILLEGAL_STATE,
    ),
    "capture into by two streams at once": ("begin_to t g a", ILLEGAL_STATE),
    "conditional: destroyed twice": ("cond_destroy q", INVALID_VALUE),
    "user object: released by a graph that has none": ("graph_release g o", INVALID_VALUE),
    "no context: add_kernel": ("@add_kernel n g", INVALID_CONTEXT),
    **{
        f"contexts: no context {where}": (step, INVALID_CONTEXT)
        for place, mark in (("", ""), (" in a capture", ""), (" where none is", "@"))
        for what, verb in (("made current", "ctx_use_number"), ("pushed", "ctx_put_number"))
        for name, handle in (
            ("a small number", "119"),
            ("zeroed memory", "pageable"),
            ("memory of the device", "buffer"),
        )
        for where, step in ((f"{what}{place}, {name}", f"{mark}{verb} {handle}"),)
    },
    "cuGraphKernelNodeSetParams: without a context": (
        "@node_set kernel k ka grid=2",
        INVALID_CONTEXT,
    ),
    "contexts: destroyed, then used": ("ctx_use c", INVALID_CONTEXT),
    "contexts: a destroyed one's, memset at once": ("fill_now c.p", INVALID_VALUE),
    "contexts: a destroyed one's, copy": ("copy_of c.v c.p p", INVALID_HANDLE),
    "contexts: a destroyed one's, copy between contexts": (
        "copy_peer c.v c.p c p home",
        INVALID_HANDLE,
    ),
    "contexts: a destroyed one's, event nodes": ("add_wait a g c.d", INVALID_HANDLE),
    "contexts: destroyed, a graph of its kernel, instantiated": ("instantiate g x", INVALID_VALUE),
    "contexts: destroyed, an executable of its kernel, launched": ("sync s", ILLEGAL_ADDRESS),
    "contexts: destroyed, an executable of its kernel, destroyed": ("exec_destroy x", 0),
    "contexts: destroyed, an executable of its memset, launched": ("sync s", ILLEGAL_ADDRESS),
    "contexts: destroyed, a graph captured in its stream": ("instantiate g x", INVALID_VALUE),
}
LEFT_OUT = sorted({key for trace in recordings().values() for key, _ in trace.get("left_out", [])})


@pytest.mark.parametrize("key", LEFT_OUT)
def test_it_is_refused(device: Device, key: str) -> None:
    step, code = ANSWERS[key.rpartition(" [")[0]]
    calls = run(device, module_image(device), key)["calls"]
    assert [call[1] for call in calls if call[0] == step][-1:] == [code]


@pytest.mark.parametrize("what", ["made current", "pushed"])
def test_a_refused_context_leaves_the_current_one(device: Device, what: str) -> None:
    """And its thread can go on: the calls behind it are answered as before."""
    key = f"contexts: no context {what}, a small number [THREAD_LOCAL]"
    _, *behind = run(device, module_image(device), key)["calls"]
    assert ["ctx_which", 0, [0] * 4, "home"] in behind and ["alloc q", 0, [0] * 4, None] in behind
    assert [call[1] for call in behind] == [0] * len(behind)


def test_a_graph_as_its_own_child(rig: Rig) -> None:
    owner = int(gate.call(cu.cuGraphCreate, 0))
    assert int(cu.cuGraphAddChildGraphNode(owner, [], 0, owner)[0]) == INVALID_VALUE
    assert graph.count_nodes(owner) == 0
    graph.destroy(owner)


@pytest.fixture
def kit(rig: Rig) -> Iterator[ConditionalKit]:
    made = ConditionalKit(rig)
    yield made
    made.close()


def test_a_lost_body_of_a_built_graph_cannot_be_instantiated(kit: ConditionalKit) -> None:
    """Never recorded; the real driver holds the same freed body here."""
    count, handle = kit.number(), conditional.create_handle(kit.graph, 1)
    made = conditional.add(kit.graph, [], handle, "if")
    conditional.begin_body(kit.inner, made.bodies[0])
    kit.bump(kit.inner, 1, 1, count, 1)
    assert int(cu.cuStreamSynchronize(kit.inner)[0]) == 900
    with pytest.raises(DriverError):
        stream.end_capture(kit.inner)
    with pytest.raises(DriverError) as raised:
        kit.ready()
    assert raised.value.code == LOST_BODY
    assert "the real driver would end the process here" in control.fault_text()
