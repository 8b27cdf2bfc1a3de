"""Case 1: an allocation in the window becomes a memory node, and the second launch fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from cuda.bindings import driver as bindings

from lowgraph import driver
from lowgraph.errors import CaptureAllocationError, GraphHasMemoryNodes
from tests.capture.micro import Micro
from tests.field_cases.bare import BLOCK, GRID, Bare, N, foreign, types_of
from tests.field_cases.remedy import names_the_line, refusal_of
from tests.support.codes import code_of

FILE = Path(__file__).name
BYTES = 1 << 16


def test_bare_the_driver_says_nothing_and_the_second_launch_fails(bare: Bare) -> None:
    fill = bare.kernel("fill")
    owned: list[int] = []

    def allocating() -> None:
        code, address = foreign("cuMemAllocAsync", BYTES, bare.stream)
        assert code == 0
        owned.append(int(address))
        fill(bare.stream, GRID, BLOCK, owned[0], 1.0, N)

    graph = bare.record(allocating)
    assert types_of(graph) == {"mem_alloc": 1, "kernel": 1}
    executable = bare.instantiate(graph)
    bare.replay(executable)
    assert code_of(lambda: bare.replay(executable)) == 1, "the first launch's memory is not freed"
    assert foreign("cuMemFreeAsync", owned[0], bare.stream) == 0
    bare.replay(executable)
    assert foreign("cuMemFreeAsync", owned[0], bare.stream) == 0, "only freed between does it run"


def test_a_pool_miss_is_refused_before_the_driver_is_asked(micro: Micro) -> None:
    refusal = refusal_of(micro, lambda: micro.pool.take("late", 1 << 20), CaptureAllocationError)
    text = str(refusal)
    wanted = "'late' (float32 [1048576]) (4194304 bytes)"
    primed = "the priming pass took 2 slices, 12.00 KiB in all"
    for part in (wanted, primed, "the largest free block has 4096 bytes"):
        assert part in text, text
    assert names_the_line(refusal, FILE) and micro.pool.stats().refused == 1


def test_a_driver_allocation_through_us_is_refused_before_it(micro: Micro) -> None:
    refusal = refusal_of(micro, lambda: driver.memory.alloc(BYTES), CaptureAllocationError)
    assert "cuMemAlloc was called in the capture window of 'step'" in str(refusal)
    assert names_the_line(refusal, FILE)


def test_the_census_finds_the_nodes_of_somebody_else(micro: Micro) -> None:
    def allocating() -> None:
        code, address = bindings.cuMemAllocAsync(BYTES, micro.stream)
        assert not code and not bindings.cuMemFreeAsync(address, micro.stream)[0]

    refusal = refusal_of(micro, allocating, GraphHasMemoryNodes)
    assert "1 mem_alloc, 1 mem_free nodes" in str(refusal) and refusal.remedy


@pytest.mark.parametrize("attempts", [5])
def test_refused_attempts_leave_the_free_list_as_it_was(micro: Micro, attempts: int) -> None:
    refusal_of(micro, lambda: micro.pool.take("late", 1 << 20), CaptureAllocationError)
    for step in micro.steps:
        step.close()
    before = micro.pool.stats().reserved, micro.pool.free_blocks()
    for _ in range(attempts):
        refusal_of(micro, lambda: micro.pool.take("late", 1 << 20), CaptureAllocationError)
        micro.steps[-1].close()
    assert (micro.pool.stats().reserved, micro.pool.free_blocks()) == before
