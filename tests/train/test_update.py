"""Clipping, average of the weights, micro-batches and schedule in the whole trainer."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.driver import Device
from lowgraph.errors import ConfigError
from lowgraph.models.mamba2_config import Mamba2Config
from lowgraph.models.registry import MODELS, find_model
from lowgraph.ops.philox import batch_starts
from lowgraph.train import checkpoint
from lowgraph.train.config import TrainConfig
from lowgraph.train.data import Corpus, heldout_plan
from lowgraph.train.datasets import Dataset
from lowgraph.train.loop import Trainer
from lowgraph.train.plan import Plan, Schedule, make_plan
from lowgraph.train.run import run
from lowgraph.train.series import Series
from lowgraph.train.step import TrainingStep
from tests.models import reference
from tests.models.oracle import MARGIN, compare, split_key_bias, worst
from tests.train.linear_series import LINEAR, linear_plan, separable_series
from tests.train.runs import SHAPE, micro_corpus, micro_plan, trained
from tests.train.updates import EVERYTHING

pytestmark = pytest.mark.both

PERCEPTION = Mamba2Config(context=10, features=5, width=8, head_size=4, state=4, loops=2)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return micro_corpus(tmp_path)


@pytest.fixture(autouse=True)
def linear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "linear", LINEAR)


def _text_plan(**changes: Any) -> Plan:
    return micro_plan(**{"steps": 30, "weight_decay": 1.0, **changes})


def _series_plan(**changes: Any) -> Plan:
    schedule = {"steps": 30, "warmup": 2, "learning_rate": 0.01, "batch": 2, "seed": 5, **changes}
    return Plan("mamba2", "micro", PERCEPTION, Schedule(**schedule), log_every=4)


# ---- against PyTorch ----


def _batches(plan: Plan, data: Dataset) -> list[tuple[Any, Any]]:
    """Inputs and targets of every step, at the places that the generator names."""
    schedule, length = plan.schedule, plan.shape.context
    found = []
    for step in range(1, schedule.steps + 1):
        if isinstance(data, Series):
            rows = data.train
            places = batch_starts(schedule.seed, step, schedule.windows, length,
                                  len(rows.labels) + 1)  # fmt: skip
            windows = [slice(int(at), int(at) + length) for at in places]
            found.append(tuple(np.stack([part[window] for window in windows])
                               for part in (rows.features, rows.labels)))  # fmt: skip
        else:
            text = data.train  # type: ignore[attr-defined]
            places = batch_starts(schedule.seed, step, schedule.windows, length, len(text))
            whole = np.stack([text[int(at) : int(at) + length + 1] for at in places])
            found.append((whole[:, :-1], whole[:, 1:]))
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("model", ["charlm", "mamba2"])
def test_a_run_with_everything_on_follows_torch(device: Device, corpus: Corpus, model: str) -> None:
    torch = pytest.importorskip("torch", reason="the oracle extra is not installed")
    from tests.models import rival_lm, rival_mamba2, torch_oracle
    from tests.train import update_oracle

    if model == "charlm":
        plan = _text_plan(**{**EVERYTHING, "clip_norm": 1.0})
    else:
        plan = _series_plan(**EVERYTHING)
    data = corpus if model == "charlm" else separable_series()
    modules = {"charlm": rival_lm.LM, "mamba2": rival_mamba2.Perception}
    weights = find_model(model).initial_values(plan.shape, plan.schedule.seed)
    single, double = (
        update_oracle.train(
            torch_oracle.load(modules[model](plan.shape), weights, dtype),
            _batches(plan, data), plan.schedule, dtype,
        )
        for dtype in (torch.float32, torch.float64)
    )  # fmt: skip
    norms = np.array(double.norms)
    assert (norms > plan.schedule.clip_norm).any() and (norms < plan.schedule.clip_norm).any()
    with trained(device, data, plan) as trainer:
        assert trainer.parts.graph_step.report().replays == 29
        ours = trainer.parts.tensors()
        for found, name in ((trainer.losses, "losses"), (trainer.norms, "norms")):
            right = np.array(getattr(double, name))
            rounding = np.max(np.abs(getattr(single, name) - right))
            np.testing.assert_allclose(found, right, rtol=0, atol=MARGIN * rounding)
    for name in ("parameters", "ema"):
        mine = {key: value.astype(np.float64) for key, value in ours[name].items()}
        sets = mine, getattr(single, name), getattr(double, name)
        nearest = worst(compare(*map(split_key_bias, sets)))
        assert nearest.excess <= 1, f"{name}: worst tensor {nearest}"


@pytest.mark.parametrize(("model", "count"), [("charlm", 2), ("charlm", 3), ("linear", 3)])
def test_micro_batches_train_as_one_batch_of_all_their_windows(
    device: Device, corpus: Corpus, model: str, count: int
) -> None:
    """Only the order of sums differs, a few roundings of 6e-8 in a step's gradients. Over 12 steps
    AdamW, which divides by the gradients' size, makes up to 1e-5 of them; other windows, or a
    micro-batch left out, move losses by more than 1e-2.
    """
    data = corpus if model == "charlm" else separable_series()
    make = micro_plan if model == "charlm" else linear_plan
    runs = []
    for batch, accumulate in ((2 * count, 1), (2, count), (2, 1)):
        with trained(device, data, make(batch=batch, accumulate=accumulate)) as trainer:
            assert trainer.parts.graph_step.report().replays == 11
            runs.append((trainer.losses, trainer.norms))
    whole, cut, part = runs
    for ours, want in zip(cut, whole, strict=True):
        np.testing.assert_allclose(ours, want, rtol=1e-4)
    assert np.abs(np.subtract(part[0], whole[0])).max() > 1e-2


# ---- checkpoints ----


@pytest.mark.parametrize("model", ["charlm", "linear"])
def test_a_resume_with_everything_on_is_the_run_bit_for_bit(
    device: Device, corpus: Corpus, tmp_path: Path, model: str
) -> None:
    data = corpus if model == "charlm" else separable_series()
    plan = (micro_plan if model == "charlm" else linear_plan)(**EVERYTHING)
    kept: list[checkpoint.Checkpoint] = []
    config = TrainConfig(checkpoint=tmp_path, checkpoint_every=5, heldout_batches=4)
    with Trainer(device, config, plan, data,
                 on_checkpoint=lambda one: kept.append(one.checkpoint())) as straight:  # fmt: skip
        straight.train()
        straight.evaluate()
        end = straight.parts.tensors()
    assert sorted(end) == ["ema", "moment1", "moment2", "parameters"]
    checkpoint.write(tmp_path, kept[0])
    found = checkpoint.read(tmp_path)
    for graph in (True, False):
        asked = TrainConfig(heldout_batches=4, graph=graph, log_every=4)
        plan_again = make_plan(asked, device.kind, found.plan)
        assert plan_again == plan
        with Trainer(device, asked, plan_again, data, resume=found) as resumed:
            resumed.train()
            resumed.evaluate()
            assert (resumed.first_step, resumed.losses) == (5, straight.losses[5:])
            assert (resumed.norms, resumed.heldout_ema) == (straight.norms[5:],
                                                            straight.heldout_ema)  # fmt: skip
            for group, values in resumed.parts.tensors().items():
                for name, value in values.items():
                    same = value.view(np.uint32) == end[group][name].view(np.uint32)
                    assert same.all(), f"{group} {name}"


def test_a_resume_refuses_another_update(device: Device, corpus: Corpus) -> None:
    with trained(device, corpus, micro_plan(steps=3, **EVERYTHING)) as trainer:
        found = trainer.checkpoint()
    for flag, field in (
        ("--clip 1.0", {"clip_norm": 1.0}), ("--ema 0.0", {"ema_decay": 0.0}),
        ("--accumulate 1", {"accumulate": 1}), ("--schedule cosine", {"schedule": "cosine"}),
        ("--final-share 0.5", {"final_share": 0.5}),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=f"^{flag} differs from the resumed run's"):
            make_plan(TrainConfig(steps=9, **field), "host", found.plan)


# ---- the average of the weights ----


def test_the_heldout_loss_of_the_average_is_the_models_with_those_weights(
    device: Device, corpus: Corpus
) -> None:
    """Float64 on the windows that the plan names, 1e-6 of a float32 mean; graph and steps go on."""
    plan = micro_plan(ema_decay=0.9)
    with trained(device, corpus, plan, eval_every=6) as trainer:
        trainer.evaluate()
        tensors = trainer.parts.tensors()
        assert [step for step, _ in trainer.heldout_ema] == [6, 12]
        assert trainer.parts.averaged is not None
        report = trainer.parts.averaged.graph_step.report()
        assert (report.captures, report.replays, report.refusals) == (1, 7, 0)
        graph = trainer.parts.graph_step.graph
        assert graph is not None
        trainer.parts.advance()
        assert trainer.parts.graph_step.graph is graph
        assert trainer.parts.graph_step.report().replays == 12
        before = trainer.parts.averaged.loss()
        assert before != trainer.heldout_ema[-1][1]
        told = trainer.heldout[-1][1], trainer.heldout_ema[-1][1]
    context = plan.shape.context
    windows, starts = heldout_plan(len(corpus.heldout), context, plan.schedule.batch, 4)
    for ours, group in zip(told, ("parameters", "ema"), strict=True):
        weights = {name: value.astype(np.float64) for name, value in tensors[group].items()}
        losses = []
        for start in starts:
            piece = corpus.heldout[start : start + windows * context + 1].astype(np.int64)
            tokens, targets = (part.reshape(windows, context) for part in (piece[:-1], piece[1:]))
            losses.append(reference.loss_and_gradients(plan.shape, weights, tokens, targets)[0])
        assert ours == pytest.approx(np.mean(losses), rel=1e-6)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_average_is_evaluated_as_a_model_that_begins_with_it(
    device: Device, corpus: Corpus, precision: str
) -> None:
    """Bit for bit: in bfloat16 the products read a copy of the average that is made in time."""
    plan = replace(micro_plan(ema_decay=0.9), precision=precision)
    with trained(device, corpus, plan) as trainer:
        trainer.evaluate()
        average = trainer.parts.tensors()["ema"]
        found = trainer.heldout_ema[-1][1]
    asked = TrainConfig(heldout_batches=4)
    with Trainer(device, asked, plan, corpus, weights=average) as fresh:
        assert fresh.evaluate() == found
        assert fresh.heldout_ema == fresh.heldout, "an average begins at the parameters"


def test_a_model_over_arenas_of_another_shape_is_refused(device: Device, corpus: Corpus) -> None:
    with trained(device, corpus, micro_plan(steps=2)) as trainer:
        parts = trainer.parts
        arenas = parts.model.parameters, parts.model.gradients
        other = replace(micro_plan(), shape=replace(SHAPE, layers=2))
        with pytest.raises(ConfigError, match="parameters has other tensors than the model; make"):
            parts.another_model(other, arenas)


def test_without_an_average_there_is_none(device: Device, corpus: Corpus) -> None:
    with trained(device, corpus, micro_plan(steps=2)) as trainer:
        trainer.evaluate()
        assert (trainer.parts.averaged, trainer.heldout_ema) == (None, [])
        assert sorted(trainer.parts.tensors()) == ["moment1", "moment2", "parameters"]


# ---- gradients that are not finite ----


class Spoiled(TrainingStep):
    """Every gradient of the last norm's bias, of every second micro-batch, is NaN."""

    passes = 0

    def _pass(self, stream: int, batch: Any) -> Any:
        loss = super()._pass(stream, batch)
        if Spoiled.passes % 2:
            spoiled = self.model.gradients["n.bias"]
            driver.memory.memset_d32_async(spoiled.address, 0x7FC00000, spoiled.elements, stream)
        Spoiled.passes += 1
        return loss


def test_spoiled_gradients_are_counted_and_the_run_goes_on(
    device: Device, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two micro-batches spoils 16 elements of the sum: their parameters, without weight
    decay, stay where they began, at zero; all others are trained.
    """
    monkeypatch.setattr("lowgraph.train.parts.TrainingStep", Spoiled)
    monkeypatch.setattr(Spoiled, "passes", 0)
    with trained(device, corpus, micro_plan(accumulate=2)) as trainer:
        assert trainer.parts.graph_step.report().replays == 11
        assert trainer.masked == [16] * 12
        assert np.isfinite(trainer.losses).all() and np.isfinite(trainer.norms).all()
        assert trainer.losses[-1] < trainer.losses[0] - 0.5
        assert not trainer.parts.tensors()["parameters"]["n.bias"].any()
        assert trainer.parts.tensors()["parameters"]["n.weight"].std() > 0


def test_a_run_that_diverges_reports_what_it_masked(device: Device, tmp_path: Path) -> None:
    """Where the weights are infinite all gradients are NaN, but those of bytes not in the batch."""
    text = micro_corpus(tmp_path).train
    said: list[str] = []
    config = TrainConfig(
        device=device.spec, preset="nano", steps=4, batch=2, warmup=1, learning_rate=1e30,
        data=tmp_path / "micro.txt", log_every=1,
    )  # fmt: skip
    result = run(config, said.append)
    figures = result.as_dict()
    assert (figures["steps"], figures["masked_steps"]) == (4, 3)  # the first step's are finite
    context, width, unseen = 64, 64, 0  # nano's
    for step in (2, 3, 4):
        starts = map(int, batch_starts(0, step, 2, context, len(text)))
        unseen += 256 - len(set(np.concatenate([text[at : at + context] for at in starts])))
    assert figures["masked_elements"] == 3 * figures["params"] - width * unseen
    assert len(figures["grad_norms"]) == 4 and figures["grad_norms"][0] > 0
    warned = [line for line in said if line.startswith("warning: ")]
    assert warned[-1] == (
        f"warning: {figures['masked_elements']} elements of the gradients of 3 steps were not "
        "finite and counted as 0; try a lower --lr, or --clip 1"
    )
    assert len(warned) == 1 + 3  # and one for each lap


def test_a_run_says_its_update(device: Device, tmp_path: Path) -> None:
    micro_corpus(tmp_path)
    said: list[str] = []
    plain: dict[str, Any] = {
        "device": device.spec, "preset": "nano", "steps": 4, "batch": 2,
        "data": tmp_path / "micro.txt", "eval_every": 2, "heldout_batches": 2,
    }  # fmt: skip
    figures = run(TrainConfig(**plain, **EVERYTHING), said.append).as_dict()
    told = "\n".join(said)
    assert "run: steps 1 to 4, 3 micro-batches of 2 windows each, seed 0" in told
    assert (
        "update: linear schedule to 0.25 of the peak, gradients clipped to norm 0.5, average of "
        "the weights with decay 0.9" in said
    )
    assert f"  norm {figures['grad_norms'][-1]:8.3g}  " in told
    heldout, average = figures["heldout_loss"], figures["heldout_loss_ema"]
    assert heldout != average and math.isfinite(average)
    assert (
        f"held-out loss {heldout:.4f} nats a byte (average of the weights: {average:.4f})" in told
    )
    on_the_way = figures["heldout"][0][1], figures["heldout_ema"][0][1]
    line = "step      2/4  held-out loss {:.4f} (average of the weights: {:.4f})"
    assert line.format(*on_the_way) in said
    assert (figures["accumulate"], figures["clip_norm"], figures["schedule"]) == (3, 0.5, "linear")
    assert (figures["ema_decay"], figures["masked_elements"]) == (0.9, 0)
    assert not any("warning" in line for line in said)
    said.clear()
    figures = run(TrainConfig(**plain), said.append).as_dict()
    told = "\n".join(said)
    assert "run: steps 1 to 4, 2 windows each" in told
    assert (
        "update: cosine schedule to 0.1 of the peak, no clipping, no average of the weights" in said
    )
    assert (figures["heldout_loss_ema"], figures["heldout_ema"]) == (None, [])
    assert "average of the weights:" not in told
