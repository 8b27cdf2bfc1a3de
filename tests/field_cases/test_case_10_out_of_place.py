"""Case 10, the wrong expectation: a graph does not feed its output back to its input.

A state that is declared (`Input(..., state=True)`) and not written in place is told.
"""

from __future__ import annotations

import pytest

from lowgraph import driver
from lowgraph.capture import Input, Phase
from lowgraph.errors import InputMoved
from lowgraph.memory import download, open_window
from tests.capture.micro import BLOCKS, Micro
from tests.field_cases.bare import N


def test_a_replay_does_not_feed_its_output_back(micro: Micro) -> None:
    """The other half of the report: out of place, every replay computes the same."""
    y = micro.pool.take("out", N)
    step = micro.step(body=lambda on: micro.forward(on, BLOCKS, 128, y, micro.x, N))
    results = []
    for _ in range(4):
        step()
        results.append(download(y, micro.stream).tobytes())
    assert len(set(results)) == 1 and step.report().replays == 3


_WARNING = "input and output differ; replay will not iterate: "


def test_a_declared_state_that_no_node_writes_is_told(micro: Micro) -> None:
    y = micro.pool.take("out", N)
    step = micro.step(
        body=lambda on: micro.forward(on, BLOCKS, 128, y, micro.x, N),
        inputs=[Input("x", micro.x, state=True)],
    )
    for _ in range(3):
        step()
    step.recapture()
    assert len(micro.said) == 1, "once"
    for part in ("lowgraph: step: warning: state 'x': ", _WARNING, "no node of the graph writes "
                 f"float32 {N} at {micro.x.address:#x}", "write the state in place"):  # fmt: skip
        assert part in micro.said[0]
    report = step.report()
    assert step.phase is Phase.READY and len(report.notes) == 1 and _WARNING in report.text()


def test_a_declared_state_that_the_body_rebinds_is_told_before_the_replay_is_refused(
    micro: Micro,
) -> None:
    """A = f(A) by two arrays in turn: as a plain step it iterates, as a graph it cannot."""
    now = [micro.x, micro.pool.take("other", N)]

    def body(stream: int) -> None:
        micro.forward(stream, BLOCKS, 128, now[1], now[0], N)
        now.reverse()

    step = micro.step(body=body, inputs=[Input("A", lambda: now[0], state=True)])
    step()
    read, left = now
    with pytest.raises(InputMoved):
        step()
    warning = micro.said[0]
    assert f"state 'A': {_WARNING}the body reads float32 {N} at {read.address:#x}" in warning
    assert f"leaves the state in float32 {N} at {left.address:#x}" in warning


def test_a_declared_state_left_in_a_temporary_is_told(micro: Micro) -> None:
    now = [micro.x]

    def body(stream: int) -> None:
        fresh = micro.pool.take("fresh", N)
        micro.forward(stream, BLOCKS, 128, fresh, micro.x, N)
        micro.pool.give_back(fresh)
        now[0] = fresh if open_window.mine() is not None else micro.x

    step = micro.step(body=body, inputs=[Input("A", lambda: now[0], state=True)])
    step()
    with pytest.raises(InputMoved, match="given back"):
        step()
    assert _WARNING in micro.said[0] and "in a slice that was given back" in micro.said[0]


@pytest.mark.parametrize("how", ["kernel", "copied back", "filled", "as part of an arena"])
def test_a_state_that_is_written_is_silent(micro: Micro, how: str) -> None:
    arena = micro.pool.take("arena", 2 * N)
    state = arena.part(N, (N,)) if how == "as part of an arena" else micro.y
    y = micro.pool.take("out", N)

    def body(stream: int) -> None:
        micro.forward(stream, BLOCKS, 128, y, state, N)
        if how == "kernel":
            micro.update(stream, BLOCKS, 128, state, micro.x, micro.rate, N)
        elif how == "copied back":
            driver.memory.copy_dtod_async(state.address, y.address, 4 * N, stream)
        elif how == "filled":
            driver.memory.memset_d8_async(state.address, 0, 4 * N, stream)
        else:  # one kernel over all of it, given the arena's beginning
            micro.forward(stream, BLOCKS, 128, arena, micro.x, N)

    step = micro.step(body=body, inputs=[Input("state", state, state=True)])
    step()
    step()
    assert step.phase is Phase.READY and micro.said == [] and step.report().notes == []
