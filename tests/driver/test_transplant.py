"""Copies of a capture's nodes in another graph: same nodes, same edges, same effect."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cuda.bindings import driver as cu

from lowgraph.driver import compat, conditional, entry, event, gate, graph, node, stream, transplant
from lowgraph.errors import ConfigError
from lowgraph.memory import PersistentPool, download, upload
from tests.support.rig import Rig

SOURCE = Path(__file__).parents[1] / "capture" / "conditional.cu"


@pytest.fixture
def target(rig: Rig) -> Iterator[int]:
    made = int(gate.call(cu.cuGraphCreate, 0))
    yield made
    graph.destroy(made)


def _shape(owner: int) -> tuple[list[str], list[tuple[int, int]]]:
    nodes = graph.nodes(owner)
    edges = [(nodes.index(start), nodes.index(end)) for start, end in graph.edges(owner)]
    return [graph.node_type(each) for each in nodes], sorted(edges)


def test_a_fork_of_every_type(rig: Rig, target: int) -> None:
    """sum += 7 twice, a fill of 3 rows in the fork, a copy of one number behind both."""
    pool = PersistentPool(rig.device)
    total, copied = pool.take("total", 1, np.int64), pool.take("copied", 1, np.int64)
    rows = pool.take("rows", (3, 33), np.uint8)
    add, side = rig.library.kernel(SOURCE, "add_to"), stream.create()
    forked, joined = event.create(), event.create()
    for piece in (total, copied, rows):
        upload(piece, np.full(piece.shape, 1, piece.dtype), rig.stream)
    rig.sync()
    stream.begin_capture(rig.stream)
    add(rig.stream, 1, 1, total, 7)
    event.record(forked, rig.stream)
    stream.wait_event(side, forked)
    assert not cu.cuMemsetD2D8Async(rows.address, 33, 9, 31, 3, side)[0]
    event.record(joined, side)
    add(rig.stream, 1, 1, total, 7)
    stream.wait_event(rig.stream, joined)
    assert not cu.cuMemcpyDtoDAsync(copied.address, total.address, 8, rig.stream)[0]
    source = stream.end_capture(rig.stream)
    # By hand: no capture makes a child graph; the attribute is one that parameters do not hold.
    last, child = [cu.CUgraphNode(graph.nodes(source)[-1])], _one_empty_node()
    assert not cu.cuGraphAddChildGraphNode(source, last, 1, child)[0]
    graph.destroy(child)
    first = graph.nodes(source)[0]
    kind = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
    value = cu.CUkernelNodeAttrValue()
    value.cooperative = 1
    assert not cu.cuGraphKernelNodeSetAttribute(first, kind, value)[0]

    transplant.copy_nodes(source, target, {})

    assert _shape(target) == _shape(source)
    for old, new in zip(graph.nodes(source), graph.nodes(target), strict=True):
        type_ = graph.node_type(old)
        if type_ == "kernel":
            assert graph.kernel_params(old) == graph.kernel_params(new)
            assert node.cooperative_of(old) == node.cooperative_of(new) == (old == first)
        elif type_ == "memset":
            assert node.fill_params(old) == node.fill_params(new)
        elif type_ == "memcpy":
            assert node.copy_params(old) == node.copy_params(new)
    graph.destroy(source)
    executable = graph.instantiate(target)
    graph.launch(executable, rig.stream)
    rig.sync()
    assert download(copied, rig.stream)[0] == 1 + 7 + 7
    expected = np.ones((3, 33), np.uint8)
    expected[:, :31] = 9
    assert np.array_equal(download(rows, rig.stream), expected)
    graph.exec_destroy(executable)
    for handle in (forked, joined):
        event.destroy(handle)
    stream.destroy(side)
    pool.close()


def _one_empty_node() -> int:
    made = int(gate.call(cu.cuGraphCreate, 0))
    assert not cu.cuGraphAddEmptyNode(made, [], 0)[0]
    return made


def test_a_conditional_takes_the_place_that_was_held(rig: Rig, target: int) -> None:
    stream.begin_capture(rig.stream)
    first = conditional.hold_place(rig.stream)
    second = conditional.hold_place(rig.stream)
    source = stream.end_capture(rig.stream)
    handle = conditional.create_handle(target, 0)
    behind: list[list[int]] = []

    def stand_in(nodes: list[int]) -> int:
        behind.append(nodes)
        return conditional.add(target, nodes, handle, "if").node

    transplant.copy_nodes(source, target, {second: stand_in})
    assert _shape(source) == (["empty", "empty"], [(0, 1)])
    assert _shape(target) == (["empty", "conditional"], [(0, 1)])
    assert behind == [graph.nodes(target)[:1]] and first not in behind[0]
    graph.destroy(source)


def test_a_node_that_cannot_be_copied(rig: Rig, target: int) -> None:
    callback = entry.HOST_FUNCTION(lambda data: None)
    params = cu.CUDA_HOST_NODE_PARAMS()
    params.fn, params.userData = _address(callback), 0
    source = int(gate.call(cu.cuGraphCreate, 0))
    assert not cu.cuGraphAddHostNode(source, [], 0, params)[0]
    with pytest.raises(ConfigError, match="a host node cannot be copied: only kernel, memset"):
        transplant.copy_nodes(source, target, {})
    graph.destroy(source)


def _address(callback: object) -> int:
    return int(ctypes.cast(callback, ctypes.c_void_p).value or 0)  # type: ignore[arg-type]


def test_a_cycle_cannot_be_copied(rig: Rig, target: int) -> None:
    source = int(gate.call(cu.cuGraphCreate, 0))
    nodes = [gate.call(cu.cuGraphAddEmptyNode, source, [], 0) for _ in range(2)]
    plain = [] if compat.BINDINGS_MAJOR < 13 else [[cu.CUgraphEdgeData()] * 2]
    gate.call(cu.cuGraphAddDependencies, source, nodes, nodes[::-1], *plain, 2)
    with pytest.raises(ConfigError, match="has a cycle"):
        transplant.copy_nodes(source, target, {})
    graph.destroy(source)


def test_without_a_context_the_driver_is_not_asked(rig: Rig, target: int) -> None:
    """It would end the process."""
    told: list[str] = []

    def elsewhere() -> None:
        try:
            transplant.copy_nodes(target, target, {})
        except ConfigError as error:
            told.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(60)
    assert len(told) == 1 and "call make_current()" in told[0]
