"""Kernels that wait by themselves for the one ahead: eagerly, in a graph, read back, updated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lowgraph import debug, driver
from lowgraph.driver import event
from lowgraph.driver.graph import Edge
from lowgraph.memory import Slice
from tests.capture.bodies import BLOCKS, THREE, Body, N, Parts
from tests.debug.raw import recorded
from tests.support.rig import Rig

SOURCE = Path(__file__).with_name("overlap.cu")


@pytest.fixture
def early(parts: Parts) -> Parts:
    for name in ("affine", "affine_plain"):
        parts.functions[name] = parts.rig.library.kernel(SOURCE, name)
    return parts


def row(*factors: float, plain: int | None = 2) -> Body:
    """y = factor * x + 1, x = factor * y + 1, and so on: the k-th kernel is `plain`."""

    def body(parts: Parts) -> None:
        pair = parts.x, parts.y
        for place, factor in enumerate(factors):
            source, target = pair if place % 2 == 0 else pair[::-1]
            name = "affine_plain" if place == plain else "affine"
            parts.functions[name](parts.stream, BLOCKS, 128, target, source, factor, 1.0, N)

    return body


def expected(*factors: float) -> tuple[bytes, ...]:
    """What the row makes of a fresh state: small whole numbers, which float32 holds exactly."""
    pair = [np.full(N, value, np.float32) for value in (1.0, 3.0)]
    for place, factor in enumerate(factors):
        pair[1 - place % 2] = np.float32(factor) * pair[place % 2] + np.float32(1)
    return (pair[0].tobytes(), pair[1].tobytes(), np.full(N, 5.0, np.float32).tobytes())


FACTORS = (2.0, 3.0, -2.0, 2.0, 1.0)


def test_each_waits_for_the_one_ahead_eagerly_too(early: Parts) -> None:
    for _ in range(20):
        assert early.eager(row(*FACTORS)) == expected(*FACTORS)


def test_a_graph_of_them_is_read_back_and_replayed(early: Parts) -> None:
    step = early.live(row(*FACTORS))
    nodes = debug.read(step).nodes
    assert [node.waits for node in nodes] == [(), (0,), (1,), (2,), (3,)]
    assert nodes[0].overlaps == nodes[2].overlaps == ()  # behind nothing; plain
    if not early.rig.device.overlaps:
        assert [node.overlaps for node in nodes] == [()] * 5
    else:
        assert (nodes[1].overlaps, nodes[4].overlaps) == ((0,), (3,))
    for _ in range(20):
        assert early.replayed() == expected(*FACTORS)


@pytest.mark.gpu
def test_a_gpu_from_9_0_on_overlaps_them(rig: Rig) -> None:
    assert rig.device.overlaps is (rig.device.compute_capability >= (9, 0)), "LOWGRAPH_OVERLAP=0?"


def test_other_factors_of_the_same_kernels_are_an_update(early: Parts) -> None:
    step = early.live(row(*FACTORS))
    old = debug.read(step)
    other = (3.0, 2.0, 2.0, -1.0, 4.0)
    early.run = row(*other)
    updated = step.recapture()
    found = debug.diff(old, debug.read(step))
    assert early.replayed() == expected(*other)
    assert updated, step.report().last_rejection
    assert found.verdict is debug.Verdict.UPDATABLE and found.counts() == {"scalar": 5}


def test_a_factor_of_one_of_them_is_set(early: Parts) -> None:
    step = early.live(row(*FACTORS))
    assert step.graph is not None
    step.graph.set_params(3, args={"factor": 5.0})
    assert early.replayed() == expected(*FACTORS[:3], 5.0, FACTORS[4])


def test_one_that_no_longer_waits_is_not_put_on_the_old_edge(early: Parts) -> None:
    step = early.live(row(*FACTORS))
    early.run = row(*FACTORS, plain=1)  # now the second is plain, and the third waits
    updated = step.recapture()
    assert early.replayed() == expected(*FACTORS)
    assert updated is not early.rig.device.overlaps
    if early.rig.device.overlaps:
        assert step.report().rejections == {"OVERLAP_CHANGED": 1}


def test_a_graph_of_others_is_read_too(early: Parts) -> None:
    with recorded(early, row(*FACTORS)) as handle:
        nodes = debug.read_handle(handle).nodes
    assert [node.waits for node in nodes] == [(), (0,), (1,), (2,), (3,)]
    assert (nodes[1].overlaps == (0,)) is early.rig.device.overlaps


def test_at_a_fork_and_a_join_they_wait_for_both_branches(early: Parts) -> None:
    def one(target: Slice, source: Slice, factor: float, on: int) -> None:
        early.functions["affine"](on, BLOCKS, 128, target, source, factor, 1.0, N)

    def body(parts: Parts) -> None:
        main, side = parts.stream, parts.side
        for _ in range(2):
            one(parts.z, parts.x, 2.0, main)
            event.record(parts.events[0], main)
            driver.stream.wait_event(side, parts.events[0])
            one(parts.y, parts.z, 3.0, side)
            one(parts.x, parts.z, -1.0, main)
            event.record(parts.events[1], side)
            driver.stream.wait_event(main, parts.events[1])
            one(parts.z, parts.y, 1.0, main)
            one(parts.x, parts.z, 1.0, main)

    x = np.full(N, 1.0, np.float32)
    for _ in range(2):
        y = 3 * (2 * x + 1) + 1
        z = y + 1
        x = z + 1
    state = x.tobytes(), y.tobytes(), z.tobytes()
    for _ in range(20):
        assert early.eager(body) == state
    early.live(body)
    for _ in range(20):
        assert early.replayed() == state


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Names of kernels: edges into their nodes are told as programmatic, those alone."""
    names: set[str] = set()
    read = driver.graph.typed_edges

    def told(graph: int) -> list[Edge]:
        return [replace(edge, programmatic=_name(edge.end) in names) for edge in read(graph)]

    monkeypatch.setattr(driver.graph, "typed_edges", told)
    yield names


def _name(node: int) -> str:
    if driver.graph.node_type(node) != "kernel":
        return ""
    return str(driver.gate.function_names[driver.graph.function_of(node)])


@pytest.mark.parametrize("before", [True, False])
def test_an_edge_of_another_type_is_not_left_to_the_driver(
    parts: Parts, marked: set[str], before: bool
) -> None:
    if before:
        marked.add("scale")
    step = parts.live(THREE)
    old = debug.read(step)
    assert old.nodes[1].overlaps == ((0,) if before else ())
    marked.symmetric_difference_update({"scale"})
    assert step.recapture() is False
    report = step.report()
    assert report.rejections == {"OVERLAP_CHANGED": 1}
    assert "node 1 (kernel scale, " in report.last_rejection
    then, now = ("nodes 0", "no node") if before else ("no node", "nodes 0")
    assert f"; begins before the end of: {then} -> {now}" in report.last_rejection
    assert parts.replayed() == parts.eager(THREE)
    found = debug.diff(old, debug.read(step))
    assert (found.verdict, found.reason, found.at) == (
        debug.Verdict.UNKNOWN,
        "OVERLAP_CHANGED",
        1,
    )
    assert found.counts() == {"overlap": 1}
    assert step.recapture() is True, "the same edges again are an update"


def test_in_another_order_it_cannot_be_told_which_edge_is_whose(
    parts: Parts, marked: set[str]
) -> None:
    marked.add("add")
    step = parts.live(lambda p: p.fork(second=Parts.scale))
    parts.run = lambda p: p.fork(Parts.scale, lambda p: p.add_to_y(p.side))
    assert step.recapture() is False
    assert step.report().rejections == {"ORDER_UNKNOWN": 1}
    assert "may begin before the end of what they wait for" in step.report().last_rejection
    assert parts.replayed() == parts.eager(parts.run)


def test_kernels_of_lowgraph_follow_one_another(rig: Rig) -> None:
    """Each over what the one ahead wrote: two fills, then sums into each other."""
    fill = rig.library.kernel("fill.cu", "fill")
    add = rig.library.kernel("residual.cu", "residual_add")
    a, b = rig.empty(257), rig.empty(257)
    for _ in range(20):
        fill(rig.stream, 1, 128, a, 1.0, 257)
        fill(rig.stream, 1, 128, b, 2.0, 257)
        for _ in range(8):
            add(rig.stream, 1, 128, a, a, b, 257)
            add(rig.stream, 1, 128, b, a, b, 257)
    x, y = 1, 2
    for _ in range(8):
        x += y
        y += x
    assert (rig.get(a) == x).all() and (rig.get(b) == y).all()
