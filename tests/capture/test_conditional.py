"""Conditionals of a step: both kinds of pass give the same, and mistakes in bodies are refused."""

from __future__ import annotations

import numpy as np
import pytest

from lowgraph.capture import Phase
from lowgraph.errors import (
    FrozenScalar,
)
from tests.capture.looping import Looping, gain


@pytest.mark.parametrize("mode", ["thread_local", "global", "relaxed"])
@pytest.mark.parametrize("journal", ["full", "light"])
def test_graphed_steps_do_what_unrecorded_ones_do(
    looping: Looping, mode: str, journal: str
) -> None:
    step = looping.step(mode=mode, journal=journal)
    expected = 0
    for limit in (3, 3, 0, 7, 1):
        looping.set(looping.limit, limit)
        step()
        expected += gain(limit)
        assert looping.total() == expected
    graph = step.graph
    assert step.phase is Phase.READY and graph is not None, step.report().text()
    # begin, set, add; count_down and set in the body.
    assert graph.launches == 5
    assert graph.census.text() == "4 nodes (1 conditional, 3 kernel), 2 more in bodies (2 kernel)"
    # What was held for the nodes is told as without a conditional.
    assert [graph.node(index).name for index in range(graph.nodes)] == [
        "begin_count",
        "set_condition",
        "conditional",
        "add_to",
    ]
    assert journal == "light" or "looping.py:" in graph.node(3).where


@pytest.mark.parametrize("otherwise", [False, True])
def test_an_if_and_its_else(looping: Looping, otherwise: bool) -> None:
    def body(stream: int) -> None:
        looping.begin(stream, 1, 1, looping.left, looping.again, looping.limit)
        looping.steer.run_if(
            stream,
            looping.again,
            lambda inner: looping.add(inner, 1, 1, looping.sum, 1),
            (lambda inner: looping.add(inner, 1, 1, looping.sum, 100)) if otherwise else None,
        )

    step = looping.step(body=body)
    expected = 0
    for limit in (1, 2, 0, 0, 5):
        looping.set(looping.limit, limit)
        step()
        expected += 1 if limit else 100 * otherwise
        assert looping.total() == expected
    assert step.phase is Phase.READY and step.report().replays == 4


def test_a_conditional_in_a_conditional(looping: Looping) -> None:
    """An IF in the loop, on a flag of its own, and a second loop behind the first one."""
    odd = looping.pool.take("odd", 1, np.int32)
    looping.set(odd, 1)
    looping.inside = lambda stream: looping.steer.run_if(
        stream, odd, lambda inner: looping.add(inner, 1, 1, looping.sum, 10_000), label="odd"
    )

    def body(stream: int) -> None:
        looping.body(stream)
        looping.body(stream)

    step = looping.step(body=body)
    expected = 0
    for limit, flag in ((3, 1), (3, 1), (4, 0), (0, 1)):
        looping.set(looping.limit, limit)
        looping.set(odd, flag)
        step()
        expected += 2 * (gain(limit) + 10_000 * limit * flag)
        assert looping.total() == expected
    assert step.phase is Phase.READY and step.report().captures == 1


def test_a_recapture_instantiates_afresh_and_says_why(looping: Looping) -> None:
    step = looping.step()
    step()
    step()
    assert step.recapture() is False
    step()
    assert looping.total() == 4 * gain(5), "two steps, the recapture's unrecorded one, a replay"
    assert "CONDITIONAL_BODIES" in step.report().text()


def test_a_scalar_in_the_body_that_changes_is_still_found(looping: Looping) -> None:
    """The kernels that only one kind of pass launches do not switch the comparison off."""
    number = iter(range(100, 200))

    def body(stream: int) -> None:
        looping.body(stream)
        looping.add(stream, 1, 1, looping.sum, next(number))

    step = looping.step(body=body)
    step()
    with pytest.raises(FrozenScalar, match="argument 'by' of add_to"):
        step.capture()


def test_a_scalar_of_the_loops_body_too(looping: Looping) -> None:
    passes = iter((1, 1, 1, 1, 1, 2))  # five rounds unrecorded, then the recorded one
    looping.inside = lambda s: looping.add(s, 1, 1, looping.sum, next(passes))
    step = looping.step()
    step()
    with pytest.raises(FrozenScalar, match="was 1 in the priming pass and 2"):
        step.capture()


def test_a_kernel_of_a_body_is_not_taken_for_one_behind_it(looping: Looping) -> None:
    """Both launch `add_to`; the record of nodes pairs launches and nodes of the graph itself."""
    looping.inside = lambda stream: looping.add(stream, 1, 1, looping.sum, 0)
    step = looping.step()
    step()
    step()
    graph = step.graph
    assert graph is not None
    record = graph.node(3)
    assert record.name == "add_to" and "looping.py:" in record.where
    graph.set_params(3, {"by": 7})
    before = looping.total()
    step()
    assert looping.total() == before + gain(5) - 1000 + 7


def test_a_body_that_was_not_reached_does_not_hide_the_scalars_around_it(looping: Looping) -> None:
    number = iter(range(100, 200))

    def body(stream: int) -> None:
        looping.body(stream)
        looping.add(stream, 1, 1, looping.sum, next(number))

    looping.set(looping.limit, 0)
    step = looping.step(body=body)
    step()
    with pytest.raises(FrozenScalar, match="argument 'by' of add_to"):
        step.capture()


def test_a_body_that_was_not_reached_is_noted(looping: Looping) -> None:
    looping.set(looping.limit, 0)
    step = looping.step()
    step()
    step()
    report = step.report()
    assert step.phase is Phase.READY and "scalars were not compared there" in report.text()
    assert not report.shape_warning
    looping.set(looping.limit, 4)
    before = looping.total()
    step()
    assert looping.total() == before + gain(4)
