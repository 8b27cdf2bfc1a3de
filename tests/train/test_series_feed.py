"""A model of a series in the trainer: the host stages each batch, and a replay reads its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph import counters
from lowgraph.driver import Device
from lowgraph.driver import event as driver_event
from lowgraph.driver import stream as driver_stream
from lowgraph.errors import ConfigError
from lowgraph.memory import download, upload
from lowgraph.models.registry import MODELS
from lowgraph.ops.philox import batch_starts
from lowgraph.train import checkpoint, verify
from lowgraph.train.checkpoint import Checkpoint
from lowgraph.train.config import TrainConfig
from lowgraph.train.data import heldout_plan
from lowgraph.train.gates import Gate, Subject, launches
from lowgraph.train.loop import Trainer
from lowgraph.train.parts import Parts
from lowgraph.train.series_feed import SLOTS
from tests.train.linear_series import LINEAR, linear_plan, separable_series
from tests.train.linear_series import initial_values as linear_values
from tests.train.runs import trained

pytestmark = pytest.mark.both

DATA = separable_series()


@pytest.fixture(autouse=True)
def linear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "linear", LINEAR)


def _batch(step: int, seed: int, batch: int, context: int) -> tuple[Any, Any]:
    """What the plan says step `step` trains on, without the feed."""
    rows = DATA.train
    starts = batch_starts(seed, step, batch, context, len(rows.labels) + 1)
    at = np.array([range(int(start), int(start) + context) for start in starts])
    return rows.features[at], rows.labels[at]


def test_batches_larger_than_the_machine_are_refused(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a machine made small: the system would end the process that asks for too much."""
    monkeypatch.setattr("lowgraph.train.series_feed.os.sysconf", lambda name: 16)
    with pytest.raises(ConfigError, match=r"^staged batches: 4 steps need .* a smaller --batch"):
        Parts(device, linear_plan(), DATA, graph=True, ring_slots=4)


def _reference_losses(steps: int, plan: Any) -> list[float]:
    """Logistic regression with AdamW in float64."""
    schedule, shape = plan.schedule, plan.shape
    state = {
        name: value.astype(np.float64)
        for name, value in linear_values(shape, schedule.seed).items()
    }
    moments = [{name: np.zeros_like(value) for name, value in state.items()} for _ in range(2)]
    losses = []
    for step in range(1, steps + 1):
        x, y = _batch(step, schedule.seed, schedule.batch, shape.context)
        x, y = x.reshape(-1, shape.features).astype(np.float64), y.reshape(-1)
        logits = x @ state["weight"][0] + state["bias"]
        losses.append(float(np.mean(np.logaddexp(0, logits) - logits * y)))
        error = (1 / (1 + np.exp(-logits)) - y) / len(y)
        gradients = {"weight": (error @ x)[None], "bias": error.sum(keepdims=True)}
        rate = _rate(step, schedule)
        for name, gradient in gradients.items():
            m, v = (moment[name] for moment in moments)
            m += (1 - schedule.beta1) * (gradient - m)
            v += (1 - schedule.beta2) * (gradient**2 - v)
            if name == "weight":
                state[name] *= 1 - rate * schedule.weight_decay
            moved = m / (1 - schedule.beta1**step)
            state[name] -= (
                rate * moved / (np.sqrt(v / (1 - schedule.beta2**step)) + schedule.epsilon)
            )
    return losses


def _rate(step: int, schedule: Any) -> float:
    if step <= schedule.warmup:
        return float(schedule.learning_rate * step / schedule.warmup)
    low = schedule.learning_rate * schedule.final_share
    progress = (step - schedule.warmup) / (schedule.steps - schedule.warmup)
    return float(low + (schedule.learning_rate - low) * (1 + np.cos(np.pi * progress)) / 2)


@pytest.mark.parametrize("edge_seed", [0, 5, 2**62 + 1])
def test_each_step_trains_on_its_own_windows(device: Device, edge_seed: int) -> None:
    """Against float64 on the windows that seed and step name; float32 over 12 steps of a mean of
    21 logits: 1e-5. A batch of another step moves a loss by more than 1e-2.
    """
    plan = linear_plan(seed=edge_seed)
    with trained(device, DATA, plan) as trainer:
        assert trainer.parts.graph_step.report().replays == 11
        np.testing.assert_allclose(trainer.losses, _reference_losses(12, plan), rtol=1e-5)


def test_a_graphed_run_equals_an_eager_one_bit_for_bit(device: Device) -> None:
    runs = []
    for graph in (True, False):
        with trained(device, DATA, linear_plan(), graph=graph) as trainer:
            runs.append((trainer.losses, trainer.evaluate(), trainer.parts.tensors()))
    (losses, heldout, tensors), (other_losses, other_heldout, other) = runs
    assert (losses, heldout) == (other_losses, other_heldout)
    for group, values in tensors.items():
        for name, value in values.items():
            np.testing.assert_array_equal(value.view(np.uint32), other[group][name].view(np.uint32))


def test_a_resumed_run_draws_the_batches_that_were_left(device: Device, tmp_path: Path) -> None:
    with trained(device, DATA, linear_plan()) as straight:
        losses, end = straight.losses, straight.parts.tensors()
    kept: list[Checkpoint] = []

    def keep(trainer: Trainer) -> None:
        kept.append(trainer.checkpoint())

    config = TrainConfig(checkpoint=tmp_path, checkpoint_every=5)
    with Trainer(device, config, linear_plan(), DATA, on_checkpoint=keep) as trainer:
        trainer.train()
    assert [found.step for found in kept] == [5, 10]
    checkpoint.write(tmp_path, kept[0])
    found = checkpoint.read(tmp_path)
    assert found.plan == linear_plan()  # its model, and the shape of that model's class
    with Trainer(device, TrainConfig(), linear_plan(), DATA, resume=found) as resumed:
        resumed.train()
        assert resumed.losses == losses[5:]
        for name, value in resumed.parts.tensors()["parameters"].items():
            np.testing.assert_array_equal(value, end["parameters"][name])


def test_a_replay_is_one_launch_and_its_marks(device: Device) -> None:
    """A step is one graph launch; around it the host asks for a slot, and marks it as in use."""
    with trained(device, DATA, linear_plan(steps=3)) as trainer:
        driver_stream.synchronize(trainer.parts.stream)
        with counters.scope() as counts:
            for _ in range(5):
                trainer.parts.advance()
                driver_stream.synchronize(trainer.parts.stream)
        assert counts.by_name == {
            "cuGraphLaunch": 5, "cuEventQuery": 5, "cuEventRecord": 5, "cuStreamSynchronize": 5,
        }  # fmt: skip
        assert trainer.parts.feeds.train.waits == 0


def test_a_slot_is_not_rewritten_before_its_replay_is_done(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event that is not reached is waited for, each slot's own, before its slot is written."""
    plan = linear_plan(steps=3)
    with Trainer(device, TrainConfig(), plan, DATA) as trainer:
        trainer.train()
        feed = trainer.parts.feeds.train
        waited: list[int] = []
        monkeypatch.setattr(driver_event, "is_done", lambda event: False)
        monkeypatch.setattr(driver_event, "synchronize", waited.append)
        written: list[int] = []
        starts = feed._starts
        monkeypatch.setattr(
            feed, "_starts", lambda step: written.append(len(waited)) or starts(step)
        )
        for _ in range(SLOTS + 1):
            trainer.parts.advance()
        assert feed.waits == SLOTS + 1
        assert written == [1, 2, 3, 4, 5]  # after the wait
        events = feed._events
        assert waited == [events[(number + 1) % SLOTS] for number in range(4, 4 + SLOTS + 1)]
        monkeypatch.undo()


def test_a_replay_reads_what_the_host_wrote_last(device: Device) -> None:
    """The same recorded graph, with a batch of the host's choice in the slot that is fetched."""
    with trained(device, DATA, linear_plan(steps=3)) as trainer:
        parts, feed, losses = trainer.parts, trainer.parts.feeds.train, []
        for number in range(4, 7):
            feed.stage(number)
            inputs, labels = feed._slots[(number + 1) % SLOTS]
            inputs[...] = 0.0
            labels[...] = number % 2
            bias = float(parts.tensors()["parameters"]["bias"][0])
            parts.graph_step()
            feed.mark(number)
            parts.steps_done = number
            driver_stream.synchronize(parts.stream)
            losses.append((parts.log._ring.read(number - 1, 1)[0].loss, bias))
        for (loss, bias), label in zip(losses[1:], (0, 1), strict=True):
            assert loss == pytest.approx(np.logaddexp(0, bias) - bias * label, rel=1e-6)


def test_a_step_that_failed_is_given_its_batch_again(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it had fetched the next one by then is not known: its own is brought once more."""
    with trained(device, DATA, linear_plan(steps=3)) as trainer:
        parts, begun = trainer.parts, list[int]()
        begin = parts.feeds.train.begin

        def seen(number: int) -> None:
            begun.append(number)
            begin(number)

        def fails() -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(parts.feeds.train, "begin", seen)
        parts.advance()
        assert begun == []
        with pytest.raises(ZeroDivisionError):
            parts.advance(fails)
        parts.advance()
        assert begun == [5]


def test_the_heldout_loss_is_that_of_the_model(device: Device) -> None:
    """Float64 on the windows that heldout_plan names; 1e-6 of a float32 mean of 21 logits."""
    plan = linear_plan()
    with trained(device, DATA, plan) as trainer:
        ours = trainer.evaluate()
        assert trainer.evaluate() == ours
        report = trainer.parts.evaluation.graph_step.report()
        weights = trainer.parts.tensors()["parameters"]
    assert (report.captures, report.refusals, report.replays) == (1, 0, 2 * 4 - 1)
    rows, context = DATA.heldout, plan.shape.context
    windows, places = heldout_plan(len(rows.labels) + 1, context, plan.schedule.batch, 4)
    losses = []
    for place in places:
        part = slice(place, place + windows * context)
        logits = rows.features[part].astype(np.float64) @ weights["weight"][0] + weights["bias"][0]
        losses.append(np.mean(np.logaddexp(0, logits) - logits * rows.labels[part]))
    assert ours == pytest.approx(np.mean(losses), rel=1e-6)


def test_every_gate_passes(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """But negative, whose process of its own does not know the tests' model."""
    monkeypatch.setattr(verify, "negative", lambda *_: Gate("negative", True, 0, "left out"))
    # More steps than slots: the replays that read them are in flight.
    gates = verify.verify(device, linear_plan(), DATA, steps=SLOTS + 3)
    assert [(gate.name, gate.detail) for gate in gates if not gate.passed] == []


def test_the_launches_gate_knows_the_feeds_waits_and_no_other_sync(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each slot is said to be in use, so that each step waits once; then a step syncs once more."""
    with Subject(device, linear_plan(), DATA, steps=3) as subject:
        monkeypatch.setattr(driver_event, "is_done", lambda event: False)
        gate = launches(subject)
        assert gate.passed and "3 syncs are the feed's, before a step" in gate.detail
        feed = subject.parts.feeds.train
        mark = feed.mark

        def waiting(number: int) -> None:
            mark(number)
            driver_stream.synchronize(subject.parts.stream)

        monkeypatch.setattr(feed, "mark", waiting)
        gate = launches(subject)
        assert not gate.passed and "6 syncs" in gate.detail


def test_the_labels_lie_behind_the_features(device: Device) -> None:
    """What a step is given, element by element, and the padding between is zero."""
    plan = linear_plan(batch=2)
    parts = Parts(device, plan, DATA, graph=False, ring_slots=2)
    try:
        feed = parts.feeds.train
        upload(parts.control, plan.schedule.control_block(5), parts.stream)
        feed.stage(6)
        with parts.pool.eager_pass("draw"):
            batch = feed.draw(parts.stream)
            whole = download(batch.held[0], parts.stream)
            inputs, labels = (download(piece, parts.stream) for piece in batch[:2])
        want_inputs, want_labels = _batch(6, plan.schedule.seed, 2, plan.shape.context)
        np.testing.assert_array_equal(inputs, want_inputs)
        np.testing.assert_array_equal(labels, want_labels)
        assert (whole[inputs.size : 128] == 0).all() and (whole[128 + labels.size :] == 0).all()
    finally:
        parts.close()
