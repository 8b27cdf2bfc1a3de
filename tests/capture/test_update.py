"""recapture(): every recorded scenario of cuGraphExecUpdate, by its outcome and by what runs."""

from __future__ import annotations

import re

import pytest

from lowgraph.capture import Phase
from lowgraph.errors import CaptureRefused
from tests.capture.bodies import FOUR, THREE, Body, Parts, chain


def middle(body: Body) -> Body:
    return chain(Parts.add, body, Parts.add)


def branches_changed_places(parts: Parts) -> None:
    """The fork of `Parts.fork`, the main stream's kernel before the side stream's."""
    parts.fork(Parts.add, lambda p: p.add_to_y(p.side))


ACCEPTED: dict[str, tuple[Body, Body]] = {
    "nothing": (THREE, THREE),
    "kernel arguments": (THREE, middle(lambda p: p.add(7.0))),
    "grid and block": (THREE, middle(lambda p: p.add(block=64))),
    "dynamic shared memory": (THREE, middle(lambda p: p.add(shared=1024))),
    "the function": (THREE, middle(Parts.add)),
    "the function, to another signature": (THREE, middle(Parts.add_all)),
    "two kernels in the other order": (
        chain(Parts.add, Parts.scale),
        chain(Parts.scale, Parts.add),
    ),
    "a slice of the pass": (Parts.through, Parts.through),
    "memcpy pointers": (Parts.copy, lambda p: p.copy(back=True)),
    "memcpy size": (Parts.copy, lambda p: p.copy(nbytes=64)),
    "memset value": (Parts.fill, lambda p: p.fill(value=1)),
    "memset size": (Parts.fill, lambda p: p.fill(count=16)),
    "memset width": (Parts.fill, Parts.fill_bytes),
    "host function to itself": (Parts.call_host, Parts.call_host),
    "external record, another event": (
        Parts.record_external,
        lambda p: p.record_external(1),
    ),
    "a fork": (Parts.fork, Parts.fork),
    "a fork whose branches changed places": (Parts.fork, branches_changed_places),
}

# The driver's reason, the new recording's node, and what differs: (what, old, new) as patterns.
REFUSED: dict[str, tuple[Body, Body, str, int | None, list[tuple[str, str, str]]]] = {
    "one node more": (THREE, FOUR, "TOPOLOGY_CHANGED", 3, [("nodes", "3", "4")]),
    "one node fewer": (FOUR, THREE, "TOPOLOGY_CHANGED", None, [("nodes", "4", "3")]),
    "other edges": (
        FOUR,
        Parts.fork,
        "TOPOLOGY_CHANGED",
        3,
        [("waits for", "nodes 2", "nodes 1, 2")],
    ),
    "from a fork to a chain": (
        Parts.fork,
        FOUR,
        "TOPOLOGY_CHANGED",
        3,
        [("waits for", "nodes 1, 2", "nodes 2")],
    ),
    "kernel to memset": (
        THREE,
        middle(Parts.fill),
        "NODE_TYPE_CHANGED",
        1,
        [("type", "kernel", "memset")],
    ),
    "kernel to host function": (
        THREE,
        middle(Parts.call_host),
        "NODE_TYPE_CHANGED",
        1,
        [("type", "kernel", "host")],
    ),
    "kernel to external event record": (
        THREE,
        middle(Parts.record_external),
        "NODE_TYPE_CHANGED",
        1,
        [("type", "kernel", "event_record")],
    ),
    "memset to memcpy": (
        Parts.fill,
        Parts.copy,
        "NODE_TYPE_CHANGED",
        0,
        [("type", "memset", "memcpy")],
    ),
    "memcpy direction": (
        Parts.copy,
        Parts.copy_in,
        "PARAMETERS_CHANGED",
        0,
        [("direction", "device to device", "host to device")],
    ),
    "normal to cooperative": (
        Parts.add,
        Parts.cooperative,
        "ATTRIBUTES_CHANGED",
        0,
        [("launch", "normal", "cooperative")],
    ),
    "cooperative to normal": (
        Parts.cooperative,
        Parts.add,
        "ATTRIBUTES_CHANGED",
        0,
        [("launch", "cooperative", "normal")],
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_an_accepted_change_updates_and_runs(parts: Parts, name: str) -> None:
    first, second = ACCEPTED[name]
    step = parts.live(first)
    executable = step.graph
    parts.run = second
    assert step.recapture() is True
    report = step.report()
    assert (report.captures, report.updates, report.reinstantiations) == (2, 1, 0)
    assert report.rejections == {} and report.last_rejection == "" and report.refusals == 0
    assert step.graph is executable and step.phase is Phase.READY
    assert parts.replayed() == parts.eager(second)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_update_is_explained_and_instantiated_afresh(parts: Parts, name: str) -> None:
    first, second, reason, node, changes = REFUSED[name]
    step = parts.live(first)
    old = step.graph
    parts.run = second
    assert step.recapture() is False
    report = step.report()
    assert (report.captures, report.updates, report.reinstantiations) == (2, 0, 1)
    assert report.rejections == {reason: 1}
    text = report.last_rejection
    assert f"cuGraphExecUpdate answered 910 {reason}" in text
    if node is not None:
        assert f"node {node} (" in text
    for what, before, now in changes:
        assert f"; {what}: {before} -> {now}" in text
    if "cooperative" not in name and "host" not in name and "external" not in name:
        assert re.match(r".*/bodies\.py:\d+: ", text), "the line that issued the node"
    assert old is not None and old.closed and step.graph is not old
    assert parts.replayed() == parts.eager(second)


def test_the_explanation_names_kernel_line_and_both_values(parts: Parts) -> None:
    step = parts.live(THREE)
    parts.run = middle(Parts.fill)
    step.recapture()
    pattern = (
        r"^\S+/bodies\.py:\d+: NODE_TYPE_CHANGED: cuGraphExecUpdate answered 910 "
        r"NODE_TYPE_CHANGED at node 1 \(memset, \S+/bodies\.py:\d+\), which was node 1 "
        r"\(kernel scale, \S+/bodies\.py:\d+\); type: kernel -> memset$"
    )
    assert re.match(pattern, step.report().last_rejection)
    assert "re-instantiations 1, NODE_TYPE_CHANGED 1; last: " in step.report().text()


@pytest.mark.parametrize(("before", "now"), [(None, 2), (2, 4), (4, 2), (2, None)])
def test_a_cluster_size_is_compared_because_the_driver_would_keep_the_old_one(
    parts: Parts, before: int | None, now: int | None
) -> None:
    step = parts.live(middle(lambda p: p.clustered(before)))
    parts.run = middle(lambda p: p.clustered(now))
    assert step.recapture() is False
    report = step.report()
    assert report.rejections == {"CLUSTER_CHANGED": 1}
    sizes = [str((size, 1, 1) if size else (0, 0, 0)) for size in (before, now)]
    assert f"; cluster: {sizes[0]} -> {sizes[1]}" in report.last_rejection
    assert "the cluster size of node 1 (kernel add, " in report.last_rejection
    assert step.graph is not None
    assert step.graph.node(1).cluster == ((now, 1, 1) if now else (0, 0, 0))
    assert step.recapture() is True, "the same size again is an update"


def test_clusters_in_graphs_that_cannot_be_paired_are_not_left_to_the_driver(parts: Parts) -> None:
    def clustered(parts: Parts) -> None:
        parts.clustered(2)

    step = parts.live(lambda p: p.fork(second=clustered))
    parts.run = lambda p: p.fork(clustered, lambda p: p.add_to_y(p.side))
    step.recapture()
    assert step.report().rejections == {"ORDER_UNKNOWN": 1}
    assert parts.replayed() == parts.eager(parts.run)


def test_an_empty_second_recording_is_refused_and_the_old_graph_runs(parts: Parts) -> None:
    step = parts.live(THREE)
    parts.run = lambda p: None
    with pytest.raises(CaptureRefused, match="recorded nothing"):
        step.recapture()
    report = step.report()
    assert step.phase is Phase.READY and report.refusals == 1 and report.captures == 1
    assert "no new graph, the old one is live: EmptyCapture" in parts.said[0]
    assert parts.replayed() == parts.eager(THREE)


def test_updates_go_back_and_forth_and_memory_stays_flat(parts: Parts) -> None:
    step = parts.live(Parts.through)
    parts.pool.trim()
    step.recapture()
    reserved = parts.pool.stats().reserved
    retained = step.report().retained_bytes
    for _ in range(10):
        assert step.recapture() is True
        step()
    assert parts.pool.stats().reserved == reserved
    assert step.report().retained_bytes == retained
    assert step.report().updates == 11
    assert parts.replayed() == parts.eager(Parts.through)
