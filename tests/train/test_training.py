"""The trainer on the device: graph against eager, repeats, resume, evaluation, interrupts."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph import counters
from lowgraph.capture import Phase
from lowgraph.driver import Device
from lowgraph.driver import stream as driver_stream
from lowgraph.errors import ConfigError
from lowgraph.train.config import TrainConfig
from lowgraph.train.data import Corpus
from lowgraph.train.loop import Trainer
from lowgraph.train.step import TrainingStep
from lowgraph.train.step_log import Lap
from tests.train.runs import micro_corpus, micro_plan, trained

pytestmark = pytest.mark.both

Tensors = dict[str, dict[str, Any]]


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return micro_corpus(tmp_path)


def _run(device: Device, corpus: Corpus, **schedule: Any) -> tuple[list[float], Tensors]:
    graph = schedule.pop("graph", True)
    with trained(device, corpus, micro_plan(**schedule), graph=graph) as trainer:
        return trainer.losses, trainer.parts.tensors()


def _assert_same(ours: Tensors, theirs: Tensors) -> None:
    for group, tensors in ours.items():
        for name, value in tensors.items():
            same = value.view(np.uint32) == theirs[group][name].view(np.uint32)
            assert same.all(), f"{group} {name}: {(~same).sum()} of {same.size} elements differ"


def test_a_graphed_run_equals_an_eager_one_bit_for_bit(device: Device, corpus: Corpus) -> None:
    graphed_losses, graphed = _run(device, corpus, graph=True)
    eager_losses, eager = _run(device, corpus, graph=False)
    assert graphed_losses == eager_losses
    _assert_same(graphed, eager)


def test_the_same_seed_repeats_and_another_does_not(device: Device, corpus: Corpus) -> None:
    first, _ = _run(device, corpus)
    assert _run(device, corpus)[0] == first
    other, _ = _run(device, corpus, seed=6)
    assert all(ours != theirs for ours, theirs in zip(first, other, strict=True))


def test_there_is_one_loss_a_step_and_it_falls(device: Device, corpus: Corpus) -> None:
    losses, _ = _run(device, corpus, steps=61)
    assert len(losses) == 61
    assert losses[0] == pytest.approx(np.log(256), abs=0.5)  # nearly even at the start
    assert np.mean(losses[-5:]) < losses[0] - 1


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_short_runs_end_well(device: Device, corpus: Corpus, steps: int) -> None:
    with trained(device, corpus, micro_plan(steps=steps, warmup=0)) as trainer:
        report = trainer.parts.graph_step.report()
        assert (len(trainer.losses), report.steps) == (steps, steps)
        assert report.captures == min(steps - 1, 1)
        assert (trainer.step_ms is None) == (steps < 3)


@pytest.mark.parametrize(
    ("done", "steps", "ends", "warm"),
    [
        (0, 49, [2, 20, 40, 49], []),
        (0, 50, [2, 20, 40, 49, 50], [50]),
        (0, 75, [2, 20, 40, 49, 60, 75], [60, 75]),
        (3, 60, [5, 20, 40, 52, 60], [60]),
    ],
)
def test_warm_steps_are_those_from_the_runs_fiftieth_on(
    device: Device, corpus: Corpus, done: int, steps: int, ends: list[int], warm: list[int]
) -> None:
    """Steps done before a resume do not count: the process begins anew."""
    laps: list[Lap] = []
    plan = replace(micro_plan(steps=steps), log_every=20)
    resume = None
    if done:
        with Trainer(device, TrainConfig(), plan, corpus) as trainer:
            for _ in range(done):
                trainer.parts.advance()
            resume = trainer.checkpoint()
    with Trainer(
        device, TrainConfig(), plan, corpus,
        resume=resume, on_lap=lambda _, lap: laps.append(lap),
    ) as trainer:  # fmt: skip
        trainer.train()
        assert [lap.last for lap in laps] == ends
        times = [(lap.ms, len(lap.losses)) for lap in laps if lap.last in warm]
        wanted = sum(ms * count for ms, count in times) / max(1, sum(n for _, n in times))
        assert trainer.warm_step_ms == (pytest.approx(wanted) if warm else None)


def test_the_report_counts_one_capture_and_the_replays(device: Device, corpus: Corpus) -> None:
    with trained(device, corpus, micro_plan()) as trainer:
        report = trainer.parts.graph_step.report()
    assert (report.captures, report.updates, report.refusals) == (1, 0, 0)
    assert (report.eager_steps, report.replays) == (1, 11)
    assert report.launches_replay_step == 1
    assert report.nodes >= report.launches_eager_step > 20
    layers = ("embedding", "attention", "mlp", "head")
    model = [f"{way}/{layer}" for way in ("forward", "backward") for layer in layers]
    others = ("batch", "loss", "optimizer", "bookkeeping", "bookkeeping/ring")
    assert sorted(report.stages) == sorted([*model, *others])
    assert sum(report.stages.values()) == report.kernels and report.library_calls_eager_step == 0
    assert 0 < report.retained_bytes < report.pool_bytes


def test_a_replay_is_one_graph_launch_and_nothing_else(device: Device, corpus: Corpus) -> None:
    with trained(device, corpus, micro_plan(steps=3)) as trainer, counters.scope() as counts:
        for _ in range(5):
            trainer.parts.advance()
        assert counts.by_name == {"cuGraphLaunch": 5}


@pytest.mark.host
def test_what_reaches_the_driver_in_a_replay(device: Device, corpus: Corpus) -> None:
    """Counted below us, by the host device itself."""
    from lowgraph.hostdev import control

    with trained(device, corpus, micro_plan(steps=3)) as trainer:
        driver_stream.synchronize(trainer.parts.stream)
        control.reset_calls()
        for _ in range(5):
            trainer.parts.advance()
        made = {name: count for name, count in control.all_calls().items() if count}
        assert made == {"cuGraphLaunch": 5}


def test_the_host_waits_once_a_lap(device: Device, corpus: Corpus) -> None:
    """12 steps in laps of 2, 2, 4, 4: each is waited for once, and nothing else is.

    But for the marks of the host's lead (tests/train/test_lead.py), which here come after the run.
    """
    trainer = Trainer(device, TrainConfig(), micro_plan(), corpus)
    trainer.parts.lead.every = 1024
    with trainer, counters.scope() as counts:
        trainer.train()
        assert counts.by_name.get("cuEventSynchronize", 0) == 4
        assert counts.by_name.get("cuStreamSynchronize", 0) == 0
        assert counts.by_name.get("cuMemcpyDtoHAsync", 0) == 0


def test_each_evaluation_on_the_way_is_told(device: Device, corpus: Corpus) -> None:
    told: list[tuple[int, float]] = []
    config = TrainConfig(heldout_batches=4, eval_every=3)

    def note(trainer: Trainer, loss: float) -> None:
        told.append((trainer.step, loss))

    with Trainer(device, config, micro_plan(), corpus, on_heldout=note) as trainer:
        trainer.train()
        assert told == trainer.heldout
        assert [step for step, _ in told] == [3, 6, 9]


def test_after_ctrl_c_only_the_last_lap_is_told(device: Device, corpus: Corpus) -> None:
    """Pressed before step 8: the lap to 4, then unread, would come after the message."""
    told: list[int] = []
    trainer = Trainer(
        device, TrainConfig(), micro_plan(), corpus, on_lap=lambda _, lap: told.append(lap.last)
    )
    graph_step = trainer.parts.graph_step

    def pressed() -> None:
        if trainer.step == 6:
            os.kill(os.getpid(), signal.SIGINT)
        graph_step()

    with trainer:
        trainer.parts.graph_step = pressed  # type: ignore[assignment]
        trainer.train()
        trainer.parts.graph_step = graph_step
        assert (told, len(trainer.losses), trainer.interrupted) == ([2, 7], 7, True)


def test_evaluations_on_the_way_change_nothing(device: Device, corpus: Corpus) -> None:
    plain, tensors = _run(device, corpus)
    with trained(device, corpus, micro_plan(), eval_every=3) as trainer:
        assert [step for step, _ in trainer.heldout] == [3, 6, 9]
        assert trainer.losses == plain
        _assert_same(trainer.parts.tensors(), tensors)
        report = trainer.parts.graph_step.report()
        assert (report.captures, report.replays, report.refusals) == (1, 11, 0)


def test_next_logits_are_those_of_a_window(device: Device, corpus: Corpus) -> None:
    """What lies behind the asked position does not matter: the model is causal."""
    with trained(device, corpus, micro_plan()) as trainer:
        tokens = np.arange(16, dtype=np.int32)
        first = trainer.parts.next_logits(tokens, 7)
        tokens[8:] = 99
        np.testing.assert_array_equal(trainer.parts.next_logits(tokens, 7), first)
        tokens[7] = 99
        assert (trainer.parts.next_logits(tokens, 7) != first).any()


@pytest.mark.parametrize("phase", [Phase.PRIMING, Phase.CAPTURING])
def test_ctrl_c_in_a_step_ends_after_it(
    device: Device, corpus: Corpus, monkeypatch: pytest.MonkeyPatch, phase: Phase
) -> None:
    """Pressed while the first step runs, or inside the capture window: that step is finished."""
    trainer = Trainer(device, TrainConfig(), micro_plan(), corpus)
    whole = TrainingStep.__call__

    def pressed(step: TrainingStep, stream: int) -> None:
        if trainer.parts.graph_step.phase is phase:
            os.kill(os.getpid(), signal.SIGINT)
        whole(step, stream)

    monkeypatch.setattr(TrainingStep, "__call__", pressed)
    with trainer:
        trainer.train()
        done = 1 if phase is Phase.PRIMING else 2
        assert trainer.interrupted
        assert (trainer.step, len(trainer.losses)) == (done, done)
        assert trainer.checkpoint().step == done
        assert trainer.parts.graph_step.report().refusals == 0


def test_a_failure_in_the_making_leaves_nothing_behind(
    device: Device, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: object) -> None:
        raise ConfigError("no text today")

    monkeypatch.setattr("lowgraph.train.parts.upload", broken)
    with counters.scope() as counts, pytest.raises(ConfigError, match="no text today"):
        Trainer(device, TrainConfig(), micro_plan(), corpus)
    made = counts.by_name
    assert made["cuStreamCreateWithPriority"] == made["cuStreamDestroy"]
    assert counts.allocations == counts.frees
