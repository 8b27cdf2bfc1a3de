"""Launches of ours in a capture that somebody else began."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from lowgraph import driver
from lowgraph.capture import drain_dropped, probing
from lowgraph.capture.handles import dropped
from lowgraph.errors import (
    CaptureAllocationError,
    CaptureError,
    CaptureFailed,
    CaptureIncomplete,
    CaptureRefused,
    FrozenScalar,
    ModuleLoadDuringCapture,
    PhaseError,
    SyncDuringCapture,
)
from lowgraph.memory import open_window
from tests.capture.moving import SOURCE
from tests.embedding.small import BLOCKS, N, Small
from tests.embedding.test_streams import Cupy

pytestmark = pytest.mark.both


def theirs(small: Small, count: int = 1) -> None:
    """Launches of somebody else: y += 2 x."""
    for _ in range(count):
        small.add(small.stream, BLOCKS, 128, small.y, small.x, N)


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_our_launches_are_nodes_of_their_graph(small: Small, mode: str) -> None:
    part = small.part(mode=mode)
    part.prime(small.stream)
    with small.their_capture(mode) as graphs:
        theirs(small, 2)
        added = part.record(Cupy(small.stream))
        theirs(small)
    assert (added.nodes, added.types) == (4, {"kernel": 2, "memset": 2})
    assert part.census == added and driver.graph.count_nodes(graphs[0]) == 7
    assert small.value() == 2, "recorded, not run"
    small.launch(graphs[0], times=3)
    assert small.value() == 2 + 3 * 8


def test_a_part_is_not_tried_out_in_their_capture(small: Small) -> None:
    part = small.part()
    part.prime(small.stream)
    with small.their_capture() as graphs, probing() as probes:
        part.record(small.stream)
    assert probes == []
    assert driver.graph.count_nodes(graphs[0]) == 4, "a probe's nodes would stay"


def test_kernels_are_loaded_before_their_capture_and_nothing_in_it(small: Small) -> None:
    part = small.part()
    small.rig.library._resident.clear()  # as if no test had captured them before
    with small.rig.device.count_calls() as primed:
        part.prime(small.stream)
    assert primed.calls["cuFuncLoad"] >= 1
    with small.their_capture(), small.rig.device.count_calls() as recorded:
        part.record(small.stream)
    assert "cuFuncLoad" not in recorded.calls


def test_what_was_dropped_before_is_not_waited_for_in_their_capture(small: Small) -> None:
    gc.collect()  # what tests before left would be counted here
    drain_dropped()
    part = small.part()
    part.prime(small.stream)
    step = small.ready()
    small._made.remove(step)
    del step
    gc.collect()
    assert len(dropped) == 1
    with small.their_capture("global"):
        part.record(small.stream)
    assert len(dropped) == 1
    assert drain_dropped() == 1


def test_the_part_keeps_the_pools_memory_until_it_is_closed(small: Small) -> None:
    part = small.part()
    part.prime(small.stream)
    with small.their_capture() as graphs:
        part.record(small.stream)
    assert part.retained_bytes == 2 * 4096
    x = small.x
    small.pool.give_back(x)
    taken = [small.pool.take(f"other {n}", N) for n in range(4)]
    assert x._address not in [piece.address for piece in taken], "what was only read is kept too"
    assert part.retained_bytes == 3 * 4096
    small.launch(graphs[0])
    part.close()
    part.close()
    assert part.retained_bytes == 0
    assert x._address in [small.pool.take(f"again {n}", N).address for n in range(3)]


def test_one_part_in_two_captures(small: Small) -> None:
    part = small.part()
    graphs = []
    for _ in range(2):
        part.prime(small.stream)
        with small.their_capture() as found:
            part.record(small.stream)
        graphs += found
    assert part.retained_bytes == 4 * 4096, "each graph has its own"
    before = small.value()
    for graph in graphs:
        small.launch(graph)
    assert small.value() - before == 4


def test_a_stream_that_nobody_captures_is_refused(small: Small) -> None:
    part = small.part()
    part.prime(small.stream)
    with pytest.raises(CaptureRefused, match=r"would join .* which is in none; record it between"):
        part.record(small.stream)
    small.rig.sync()
    assert small.value() == 2, "nothing was launched"


def test_a_broken_capture_is_refused(small: Small) -> None:
    part = small.part()
    part.prime(small.stream)
    with pytest.raises(CaptureError), small.their_capture("global"):
        with pytest.raises(CaptureError):
            driver.stream.synchronize(small.stream)  # breaks it
        with pytest.raises(CaptureRefused, match=r"which is broken \(901\)"):
            part.record(small.stream)


def test_record_before_prime_is_refused(small: Small) -> None:
    part = small.part()
    with small.their_capture():
        with pytest.raises(PhaseError, match=r"before it was primed for it: call prime\(stream\)"):
            part.record(small.stream)
        theirs(small)


def test_each_record_has_to_be_primed_for(small: Small) -> None:
    """What the first one was primed with is in its graph: the second would be half recorded."""
    part = small.part()
    part.prime(small.stream)
    with small.their_capture():
        part.record(small.stream)
    with small.their_capture() as graphs:
        with pytest.raises(PhaseError, match="before it was primed for it"):
            part.record(small.stream)
        theirs(small)
    assert driver.graph.count_nodes(graphs[0]) == 1, "nothing of it is in their graph"
    part.prime(small.stream)
    with pytest.raises(CaptureRefused, match="which is in none"):
        part.record(small.stream)
    with small.their_capture():
        with pytest.raises(PhaseError, match="before it was primed for it"):
            part.record(small.stream)
        theirs(small)


def test_a_closed_part_and_a_part_in_its_own_body(small: Small) -> None:
    def body(stream: int) -> None:
        part.record(stream)

    part = small.part(body)
    with pytest.raises(PhaseError, match="record of 'part' was called from its own body"):
        part.prime(small.stream)
    part.close()
    for call in (part.prime, part.record):
        with pytest.raises(PhaseError, match="'part', which is closed: make another one"):
            call(small.stream)


WRONG: dict[str, tuple[Any, type[CaptureRefused], str]] = {
    "allocates": (
        lambda small: driver.memory.alloc(64), CaptureAllocationError, "cuMemAlloc was called"),
    "misses": (lambda small: small.pool.take("big", 64 * N), CaptureAllocationError, "'big'"),
    "waits": (lambda small: driver.stream.synchronize(small.stream), SyncDuringCapture,
              "cuStreamSynchronize was called"),
    "strays": (lambda small: small.add(0, BLOCKS, 128, small.y, small.x, N), CaptureIncomplete,
               "was sent to stream 0x0"),
    "loads": (lambda small: small.rig.library.kernel(SOURCE, "busy", {"NEW": 1}),
              ModuleLoadDuringCapture, "would be compiled or loaded"),
    "ends": (lambda small: driver.stream.end_capture(small.stream), CaptureRefused,
             "cuStreamEndCapture was called"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_what_would_break_their_capture_is_refused_and_it_lives(small: Small, wrong: str) -> None:
    act, kind, told = WRONG[wrong]
    passes: list[int] = []

    def body(stream: int) -> None:
        passes.append(stream)
        small.body(stream)
        if len(passes) == 2:
            act(small)

    part = small.part(body)
    part.prime(small.stream)
    before = small.pool.stats()
    with small.their_capture() as graphs:
        theirs(small)
        with small.rig.device.count_calls() as count, pytest.raises(kind, match=told) as caught:
            part.record(small.stream)
        assert "cuGraphDestroy" not in count.calls, "it is theirs"
        theirs(small)
    assert caught.value.where is not None and "embedding" in caught.value.where
    assert part.retained_bytes == 0 and small.pool.stats().live == before.live
    assert driver.graph.count_nodes(graphs[0]) == 2 + 4, "theirs, and what came before it"


def test_what_the_body_raises_passes_through(small: Small) -> None:
    passes: list[int] = []

    def body(stream: int) -> None:
        passes.append(stream)
        if len(passes) == 2:
            raise KeyError("mine")
        small.body(stream)

    part = small.part(body)
    part.prime(small.stream)
    collecting = gc.isenabled()
    with small.their_capture(), pytest.raises(KeyError, match="mine"):
        part.record(small.stream)
    assert open_window.current() is None and gc.isenabled() == collecting


def test_a_capture_that_breaks_meanwhile_is_told(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[int] = []

    def body(stream: int) -> None:
        small.body(stream)
        passes.append(stream)
        if len(passes) == 2:
            monkeypatch.setattr(driver.stream, "capture_graph", lambda stream: None)

    part = small.part(body)
    part.prime(small.stream)
    with small.their_capture(), pytest.raises(CaptureFailed, match=r"invalidated \(901\)"):
        part.record(small.stream)
    monkeypatch.undo()


def test_a_scalar_that_changes_is_refused(small: Small) -> None:
    number = small.rig.library.kernel(SOURCE, "add_number")
    names = [param.name for param in number.signature.params]
    values = iter([1, 2])

    def body(stream: int) -> None:
        number(stream, BLOCKS, 128, small.y, next(values), N)

    part = small.part(body)
    part.prime(small.stream)
    with small.their_capture(), pytest.raises(FrozenScalar, match=f"argument '{names[1]}'"):
        part.record(small.stream)
