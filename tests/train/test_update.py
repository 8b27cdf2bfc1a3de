"""Clipping, average of the weights, micro-batches and schedule in the whole trainer."""

from __future__ import annotations

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
from lowgraph.train.data import Corpus
from lowgraph.train.datasets import Dataset
from lowgraph.train.loop import Trainer
from lowgraph.train.plan import Plan, Schedule, make_plan
from lowgraph.train.run import run
from lowgraph.train.series import Series
from lowgraph.train.step import TrainingStep
from tests.models.oracle import MARGIN, compare, split_key_bias, worst
from tests.train.linear_series import LINEAR, linear_plan, separable_series
from tests.train.runs import assert_same, micro_corpus, micro_plan, trained
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
            assert (resumed.norms, resumed.heldout) == (straight.norms[5:], straight.heldout)
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


# ---- gradients that are not finite ----


class Spoiled(TrainingStep):
    """Every gradient of the last norm's bias, of every second micro-batch, is NaN."""

    passes = 0

    def _pass(self, stream: int, batch: Any, leads: bool) -> Any:
        loss = super()._pass(stream, batch, leads)
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


@pytest.mark.parametrize(
    ("graph", "accumulate", "spoiled"), [(True, 2, range(1, 13)), (False, 1, range(2, 13, 2))]
)
def test_counts_of_masked_elements_go_on_over_a_resume(
    device: Device,
    corpus: Corpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    graph: bool,
    accumulate: int,
    spoiled: range,
) -> None:
    """12 steps straight, and 5 with a resume for the other 7: the same counts, in the file too."""
    monkeypatch.setattr("lowgraph.train.parts.TrainingStep", Spoiled)
    monkeypatch.setattr(Spoiled, "passes", 0)
    plan = micro_plan(accumulate=accumulate)
    kept: list[checkpoint.Checkpoint] = []
    asked = TrainConfig(checkpoint=tmp_path, checkpoint_every=5, graph=graph)
    with Trainer(device, asked, plan, corpus,
                 on_checkpoint=lambda one: kept.append(one.checkpoint())) as straight:  # fmt: skip
        straight.train()
        end = straight.checkpoint()
        assert straight.masked == [16 * (step in spoiled) for step in range(1, 13)]
    counts = [sum(step in spoiled for step in range(1, last + 1)) for last in (5, 12)]
    for found, steps in zip((kept[0], end), counts, strict=True):
        assert (found.cursor.masked_elements, found.cursor.masked_steps) == (16 * steps, steps)
    checkpoint.write(tmp_path, kept[0])
    Spoiled.passes = 5 * accumulate  # as the straight run had it there
    resume = checkpoint.read(tmp_path)
    with Trainer(device, TrainConfig(graph=graph), plan, corpus, resume=resume) as resumed:
        assert resumed.masked_in_all() == (16 * counts[0], counts[0])
        resumed.train()
        assert resumed.masked == straight.masked[5:]
        assert_same(resumed.checkpoint(), end)


def test_a_resumed_run_tells_what_was_masked_in_all(device: Device, tmp_path: Path) -> None:
    micro_corpus(tmp_path)
    flags: dict[str, Any] = {
        "device": device.spec, "preset": "nano", "steps": 5, "batch": 1, "heldout_batches": 1,
        "data": tmp_path / "micro.txt",
    }  # fmt: skip
    diverges = {"warmup": 1, "learning_rate": 1e30}
    said: list[str] = []
    folder = tmp_path / "kept"
    whole = run(
        TrainConfig(**flags, **diverges, checkpoint=folder, checkpoint_every=3), said.append
    ).as_dict()
    assert whole["masked_steps"] == whole["masked_steps_total"] == 4  # all but the first
    assert not any("before the resume" in line for line in said)
    again = run(
        TrainConfig(**flags, resume=folder / checkpoint.PREVIOUS_NAME), said.append
    ).as_dict()
    assert (again["resumed_from"], again["masked_steps"]) == (3, 2)
    for name in ("masked_elements_total", "masked_steps_total"):
        assert again[name] == whole[name]
    assert 0 < again["masked_elements"] < again["masked_elements_total"]
    assert said.count(
        f"with the steps before the resume: {whole['masked_elements']} elements of 4 steps "
        "counted as 0"
    ) == 1  # fmt: skip


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
    heldout = figures["heldout_loss"]
    assert f"held-out loss {heldout:.4f} nats a byte (average of the weights), bigram" in told
    on_the_way = figures["heldout"][0][1]
    assert f"step      2/4  held-out loss {on_the_way:.4f} (average of the weights)" in said
    assert figures["weights_out"] == "ema"
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
    assert figures["weights_out"] == "plain"
    assert "average of the weights)" not in told and "plain weights" not in told
