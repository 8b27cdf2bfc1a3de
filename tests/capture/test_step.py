"""GraphStep on a real device: its life, its figures, and that captured equals eager bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from lowgraph import counters, driver
from lowgraph.capture import Phase
from lowgraph.errors import PhaseError
from lowgraph.memory import download, upload
from tests.capture.micro import Micro, N


def test_it_primes_records_and_then_replays(micro: Micro) -> None:
    step = micro.step()
    assert step.phase is Phase.COLD
    step()
    assert step.phase is Phase.PRIMING and micro.passes == 1
    assert micro.state()[0] == 1, "the priming pass is a real step"
    step()
    assert step.phase is Phase.READY and micro.passes == 2
    assert micro.state()[0] == 2, "the second call ran once, by the graph"
    for _ in range(5):
        step()
    assert micro.passes == 2 and micro.state() == micro.expected(7)
    report = step.report()
    assert (report.captures, report.replays, report.eager_steps) == (1, 6, 1)
    assert (report.steps, report.refusals, report.updates, report.pins) == (7, 0, 0, 0)
    assert (report.nodes, report.kernels, report.nodes_by_type) == (4, 4, {"kernel": 4})
    assert (report.launches_eager_step, report.launches_replay_step) == (4, 1)
    assert report.unowned == 0 and report.notes == [] and micro.said == []


def test_recording_runs_nothing(micro: Micro) -> None:
    step = micro.step()
    step.prime()
    before = micro.state()
    step.capture()
    assert micro.state() == before
    step.replay()
    assert micro.state() == micro.expected(2)


def test_graphed_equals_eager_bit_for_bit(micro: Micro) -> None:
    step = micro.step(graph=False)
    for _ in range(9):
        step()
    eager = micro.state()
    assert step.phase is Phase.DISABLED and step.report().eager_steps == 9
    assert step.report().launches_eager_step == 4
    micro.reset()
    graphed = micro.step()
    for _ in range(9):
        graphed()
    assert micro.state() == eager == micro.expected(9)


def test_a_replay_reads_the_input_that_was_written_last(micro: Micro) -> None:
    step = micro.step()
    step()
    step()
    upload(micro.y, np.zeros(N, np.float32), micro.stream)
    upload(micro.x, np.full(N, 3, np.float32), micro.stream)
    step()  # the third step: y = rate * (2 x + 1) with a rate of 1/3
    expected = np.full(N, np.float32(1) / np.float32(3) * np.float32(7), np.float32)
    assert np.allclose(download(micro.y, micro.stream), expected, rtol=1e-6)


def test_a_replay_is_one_graph_launch_and_nothing_else(micro: Micro) -> None:
    step = micro.step()
    step()
    step()
    with counters.scope() as counts:
        for _ in range(10):
            step()
    assert counts.by_name == {"cuGraphLaunch": 10}


@pytest.mark.host
def test_below_us_a_replay_is_one_graph_launch_and_nothing_else(micro: Micro) -> None:
    from lowgraph.hostdev import control

    step = micro.step()
    step()
    step()
    micro.rig.sync()
    control.reset_calls()
    for _ in range(10):
        step()
    calls = {name: count for name, count in control.all_calls().items() if count}
    assert calls == {"cuGraphLaunch": 10}


def test_priming_and_window_figures(micro: Micro) -> None:
    step = micro.step()
    step()
    step()
    report = step.report()
    aligned = 4096, 8192  # hidden [1000], second [2000] of float32
    assert report.primed.slices == report.window.slices == 2
    assert report.primed.bytes == report.window.bytes == sum(aligned)
    assert report.primed.peak == max(aligned)
    assert report.window.grown == 0
    assert report.retained_bytes == sum(aligned)
    assert report.pool_bytes == micro.pool.stats().reserved


def test_the_graph_keeps_what_its_kernels_read(micro: Micro) -> None:
    step = micro.step()
    for _ in range(2):
        step()
    address = micro.x.address
    values = download(micro.x, micro.stream)
    micro.pool.give_back(micro.x)
    fresh = micro.pool.take("fresh", N)
    assert fresh.address != address, "the graph still reads the old x"
    step()
    assert micro.state()[0] == 3
    step.close()
    again = [micro.pool.take(f"s{n}", N) for n in range(4)]
    assert address in {piece.address for piece in again}
    assert values.shape == (N,)


def test_close_is_idempotent_waits_and_gives_the_memory_back(micro: Micro) -> None:
    before = micro.pool.stats()
    step = micro.step()
    for _ in range(30):
        step()
    step.close()  # replays are in flight
    step.close()
    after = micro.pool.stats()
    assert after.retained == after.primed == 0 and after.live == before.live
    assert step.report().phase == "CLOSED" and step.report().retained_bytes == 0
    assert step.report().why_no_graph == "closed"
    with pytest.raises(PhaseError, match="is closed"):
        step()
    assert micro.state()[0] == 30


def test_a_step_of_another_shape_replays_beside_the_first(micro: Micro) -> None:
    """Two graphs of one pool hold different blocks; each keeps giving its own result."""
    first, second = micro.step(label="first"), micro.step(label="second")
    for _ in range(3):
        first()
        second()
    owned = {piece.owner for piece in _slices_held(micro)}
    assert {"first", "second"} <= owned
    assert micro.state() == micro.expected(6)


def _slices_held(micro: Micro) -> list[object]:
    return [held.piece for held in micro.pool._ledger.held.values()]


@pytest.mark.parametrize("call", ["__call__", "prime", "capture", "replay", "close"])
@pytest.mark.parametrize("in_pass", [1, 2])
def test_a_body_may_not_drive_its_own_step(micro: Micro, call: str, in_pass: int) -> None:
    step = micro.step()

    def drive(number: int) -> None:
        if number == in_pass:
            getattr(step, call)()

    micro.extra = drive
    with pytest.raises(PhaseError, match=r"from its own body|being recorded|not recorded"):
        for _ in range(in_pass):
            step()
    assert driver.stream.capture_status(micro.stream) == "none"


def test_moves_out_of_order_are_refused(micro: Micro) -> None:
    step = micro.step()
    with pytest.raises(PhaseError, match="nothing is primed"):
        step.capture()
    with pytest.raises(PhaseError, match="nothing is recorded"):
        step.replay()
    step.prime()
    with pytest.raises(PhaseError, match="primed but not recorded"):
        step.replay()
    step.capture()
    with pytest.raises(PhaseError, match="never capture over it"):
        step.capture()
    with pytest.raises(PhaseError, match="a graph is live"):
        step.prime()
    step.replay()
    assert micro.state() == micro.expected(2)


def test_the_report_prints_its_zeros(micro: Micro) -> None:
    text = micro.step().report().text()
    for part in ("captures 0, updates 0, refusals 0", "0 in an eager step, 0 in a replay",
                 "pins 0 (launches a replay: 0)", "no graph: not recorded yet"):  # fmt: skip
        assert part in text


def test_a_slice_of_an_eager_pass_cannot_be_used_after_it(micro: Micro) -> None:
    kept = []
    step = micro.step(graph=False)
    micro.extra = lambda number: kept.append(micro.pool.take("kept", 8))
    step()
    with pytest.raises(Exception, match="take it again in every pass"):
        micro.forward(micro.stream, 1, 128, kept[0], micro.x, 8)


def test_a_dropped_step_is_given_back_by_the_next_capture(micro: Micro) -> None:
    """The collector only queues: no driver call is made by it."""
    import gc

    step = micro.step()
    step()
    step()
    micro.steps.clear()
    calls: list[str] = []
    driver.gate.observer = lambda name, args, code: calls.append(name)
    try:
        del step
        gc.collect()
    finally:
        driver.gate.observer = None
    assert calls == [] and micro.pool.stats().retained > 0
    other = micro.step()
    other()
    assert micro.pool.stats().retained == 0
