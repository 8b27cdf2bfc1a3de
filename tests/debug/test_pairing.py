"""Nodes are paired as the driver pairs them: graphs built node by node, against its own answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from cuda.bindings import driver as cu

from lowgraph import debug, driver
from lowgraph.debug import Diff, Verdict
from lowgraph.driver import gate
from lowgraph.driver.graph import UpdateResult
from tests.capture.bodies import Parts
from tests.debug.raw import recorded

pytestmark = pytest.mark.both

Waits = list[list[int]]
"""Of each node, in the order of their making, those that it waits for."""

DIAMOND: Waits = [[], [0], [0], [1, 2]]


@contextmanager
def built(waits: Waits) -> Iterator[int]:
    """A graph of empty nodes."""
    graph = gate.call(cu.cuGraphCreate, 0)
    try:
        nodes: list[cu.CUgraphNode] = []
        for before in waits:
            starts = [nodes[place] for place in before]
            nodes.append(gate.call(cu.cuGraphAddEmptyNode, graph, starts or None, len(starts)))
        yield int(graph)
    finally:
        driver.graph.destroy(int(graph))


def both(one: int, two: int) -> tuple[Diff, UpdateResult, int | None]:
    """What we say of an update from one graph to another, what the driver does, and where."""
    found = debug.diff(debug.read_handle(one), debug.read_handle(two))
    executable = driver.graph.instantiate(one)
    try:
        answer = driver.graph.update(executable, two)
    finally:
        driver.graph.exec_destroy(executable)
    place = None if answer.node is None else driver.graph.nodes(two).index(answer.node)
    return found, answer, place


def assert_agrees(first: Waits, second: Waits) -> bool:
    """Returns whether the driver accepted."""
    with built(first) as one, built(second) as two:
        found, answer, place = both(one, two)
    wanted = (Verdict.UPDATABLE, "", None)
    refused = Verdict.REINSTANTIATE, answer.reason, place
    told = found.verdict, found.reason, found.at
    assert told == (wanted if answer.ok else refused), (first, second)
    return answer.ok


CASES: dict[str, tuple[Waits, Waits]] = {
    "the same": (DIAMOND, DIAMOND),
    "edges in the other order": (DIAMOND, [[], [0], [0], [2, 1]]),
    "two exits": ([[], [0], [0]], [[], [0], [0]]),
    "two chains, the shorter one first": ([[], [], [0]], [[], [], [1]]),
    "two exits, one of them deeper": ([[], [0], [1], [0]], [[], [0], [0], [1]]),
    "one start for two": ([[], [], [0], [1]], [[], [], [0], [0]]),
    "two starts for one": ([[], [], [0], [0]], [[], [], [0], [1]]),
    "an exit more": ([[], [0], [1]], [[], [0], [0]]),
    "an exit less": ([[], [0], [0]], [[], [0], [1]]),
    "empty": ([], []),
}


@pytest.mark.parametrize("name", CASES)
def test_small_graphs(parts: Parts, name: str) -> None:
    assert_agrees(*CASES[name])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_random_graphs(parts: Parts, seed: int) -> None:
    random = np.random.default_rng(seed)
    accepted = 0
    for _ in range(150):
        count = int(random.integers(2, 7))
        first = [[int(b) for b in range(n) if random.random() < 0.4] for n in range(count)]
        second = [list(random.permutation(before)) for before in first]
        second = [[int(b) for b in before] for before in second]
        if random.random() < 0.6:
            place = int(random.integers(1, count))
            second[place] = [int(b) for b in range(place) if random.random() < 0.5]
        accepted += assert_agrees(first, second)
    assert 20 < accepted < 130, "both answers, many times each"


def _copied(parts: Parts, to_pitch: int, source_pitch: int, rows: int) -> cu.CUDA_MEMCPY3D:
    params = cu.CUDA_MEMCPY3D()
    params.srcMemoryType = params.dstMemoryType = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
    params.srcDevice, params.dstDevice = parts.y.address, parts.x.address
    params.WidthInBytes, params.Height, params.Depth = 16, rows, 1
    params.srcPitch, params.dstPitch = source_pitch, to_pitch
    params.srcHeight = params.dstHeight = rows
    return params


@contextmanager
def copying(parts: Parts, to_pitch: int, source_pitch: int, rows: int = 3) -> Iterator[int]:
    """A graph of one copy."""
    with built([]) as graph:
        params = _copied(parts, to_pitch, source_pitch, rows)
        context = parts.rig.device.context
        gate.call(cu.cuGraphAddMemcpyNode, graph, None, 0, params, context)
        yield graph


@pytest.mark.parametrize(("to", "source"), [(64, 128), (128, 128), (64, 64)])
def test_pitches_of_a_copy_of_rows_are_read_and_judged(parts: Parts, to: int, source: int) -> None:
    with copying(parts, 64, 128) as one, copying(parts, to, source) as two:
        held = debug.read_handle(two).nodes[0].attributes
        assert (held["to_pitch"], held["source_pitch"], held["height"]) == (to, source, 3)
        found, answer, _ = both(one, two)
    assert (found.verdict is Verdict.UPDATABLE) == answer.ok == ((to, source) == (64, 128))


def test_an_allocation_has_its_size_and_another_one_is_not_judged(parts: Parts) -> None:
    def allocating(nbytes: int) -> debug.Form:
        def body(parts: Parts) -> None:
            address = gate.call(cu.cuMemAllocAsync, nbytes, parts.stream)
            gate.call(cu.cuMemFreeAsync, address, parts.stream)

        with recorded(parts, body) as handle:
            return debug.read_handle(handle)

    form, other = allocating(4096), allocating(8192)
    assert form.nodes[0].attributes == {"nbytes": 4096} and other.nodes[0].name == "mem_alloc"
    assert debug.diff(form, form).verdict is Verdict.UPDATABLE
    found = debug.diff(form, other)
    assert (found.verdict, found.reason) == (Verdict.UNKNOWN, "an allocation of another size")
