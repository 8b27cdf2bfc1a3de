"""Case 17: one graph a shape and none ever evicted: the device fills up, somebody else fails."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from lowgraph import driver
from lowgraph.capture import GraphStep, Phase, ShapeKeyedSteps
from lowgraph.errors import GraphBudgetExceeded, OutOfMemory
from tests.capture.micro import BLOCKS, Micro
from tests.field_cases.bare import BLOCK, GRID, Bare, N

KEYS, BUDGET = 300, 8
KEPT = 1 << 20  # bytes that a graph of each key keeps


def _a_graph_per_key(bare: Bare, kept: list[int], keys: int) -> int:
    """Record and instantiate keys' graphs over memory of their own; the number of them."""
    fill = bare.kernel("fill")
    for key in range(keys):
        kept.append(driver.memory.alloc(KEPT))
        address = kept[-1]
        bare.ready(lambda: fill(bare.stream, GRID, BLOCK, address, float(key), N))  # noqa: B023
    return keys


def test_bare_memory_shrinks_with_every_key(bare: Bare) -> None:
    before, kept = driver.memory.info()[0], list[int]()
    try:
        _a_graph_per_key(bare, kept, KEYS)
        assert before - driver.memory.info()[0] >= (KEYS - 2) * KEPT, "a GPU hands out pages"
    finally:
        bare.rig.sync()
        for address in kept:
            driver.memory.free(address)


@pytest.mark.host
def test_bare_the_failure_is_at_whoever_allocates_next(bare: Bare) -> None:
    """The host device is made so small that the keys fill it."""
    from lowgraph.hostdev import control

    free, total = driver.memory.info()
    kept: list[int] = []
    control.set_memory(total - free + KEYS * KEPT)
    try:
        with pytest.raises(OutOfMemory):
            _a_graph_per_key(bare, kept, 2 * KEYS)
        with pytest.raises(OutOfMemory):
            driver.memory.alloc(KEPT)  # the innocent one
        assert len(kept) <= KEYS
    finally:
        control.set_memory(total)
        for address in kept:
            driver.memory.free(address)


def _bounded(micro: Micro) -> ShapeKeyedSteps:
    """A step for each key over scratch memory of a size of its own, at most 8 kept."""

    def make(key: Hashable) -> GraphStep:
        assert isinstance(key, int)

        def body(stream: int) -> None:
            scratch = micro.pool.take("scratch", KEPT // 4 + 64 * key)
            micro.forward(stream, BLOCKS, 128, scratch, micro.x, N)

        return micro.step(body=body, label=f"key {key}")

    return ShapeKeyedSteps(make, pool=micro.pool, max_graphs=BUDGET)


def test_a_budget_keeps_memory_flat_over_every_key(micro: Micro) -> None:
    with _bounded(micro) as steps:
        reserved = []
        for key in range(KEYS):
            for _ in range(2):
                steps(key)
            reserved.append(micro.pool.stats().reserved)
        report = steps.report()
        assert (len(steps), report.evictions, report.misses) == (BUDGET, KEYS - BUDGET, KEYS)
        assert max(reserved[KEYS // 2 :]) <= max(reserved[: KEYS // 2]) + 2 * KEPT
        assert max(reserved) < 4 * BUDGET * KEPT
        steps(0)
        steps(0)
        assert steps.report().recaptures == 1, "an evicted key is made again, and counted"
    assert micro.pool.stats().retained == 0


@pytest.mark.host
def test_where_the_bare_keys_filled_the_device_the_next_allocation_is_served(micro: Micro) -> None:
    from lowgraph.hostdev import control

    free, total = driver.memory.info()
    control.set_memory(total - free + KEYS * KEPT // 4)
    try:
        with _bounded(micro) as steps:
            for key in range(KEYS):
                steps(key)
                steps(key)
            driver.memory.free(driver.memory.alloc(KEPT))
    finally:
        control.set_memory(total)


def test_one_key_that_exceeds_the_budget_is_named_with_the_top_owners(micro: Micro) -> None:
    with _bounded(micro) as steps:
        steps.max_bytes = KEPT // 2
        with pytest.raises(GraphBudgetExceeded) as raised:
            steps(3)
        error = raised.value
        assert error.key == 3 and error.nbytes > error.budget == KEPT // 2 and error.owners
        assert "its cache's budget is" in str(error) and "raise it" in str(error)
        steps.max_bytes = None
        steps(3)
        steps(3)
        kept = steps.step(3)
        assert kept is not None and kept.phase is Phase.READY, "giving up is not for good"
