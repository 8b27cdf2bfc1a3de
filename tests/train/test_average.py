"""The average of the weights in the whole trainer, and which weights come out of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph.driver import Device
from lowgraph.errors import ConfigError
from lowgraph.train.config import TrainConfig
from lowgraph.train.data import Corpus
from lowgraph.train.loop import Trainer
from lowgraph.train.plan import make_plan
from lowgraph.train.run import run
from tests.train.heldout import heldout_loss
from tests.train.runs import SHAPE, micro_corpus, micro_plan, trained

pytestmark = pytest.mark.both


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return micro_corpus(tmp_path)


@pytest.mark.parametrize("which", ["ema", "plain"])
def test_the_heldout_loss_is_the_models_with_the_weights_that_come_out(
    device: Device, corpus: Corpus, which: str
) -> None:
    """Float64 on the windows that the plan names, 1e-6 of a float32 mean; graph and steps go on."""
    plan = micro_plan(ema_decay=0.9)
    flags = {"weights_out": which} if which == "plain" else {}
    with trained(device, corpus, plan, eval_every=6, **flags) as trainer:
        trainer.evaluate()
        kept = trainer.checkpoint()
        assert [step for step, _ in trainer.heldout] == [6, 12]
        report = trainer.parts.evaluation.graph_step.report()
        assert (report.captures, report.replays, report.refusals) == (1, 7, 0)
        graph = trainer.parts.graph_step.graph
        assert graph is not None
        trainer.parts.advance()
        assert trainer.parts.graph_step.graph is graph
        assert trainer.parts.graph_step.report().replays == 12
        told = trainer.heldout[-1][1]
        assert trainer.evaluate() != told
        assert trainer.weights_out == which
    losses = {name: heldout_loss(plan, corpus, kept.weights(name)) for name in ("plain", "ema")}
    assert told == pytest.approx(losses.pop(which), rel=1e-6)
    assert told != pytest.approx(next(iter(losses.values())), rel=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_average_comes_out_as_a_model_that_begins_with_it(
    device: Device, corpus: Corpus, precision: str
) -> None:
    """Losses and logits bit for bit: in bfloat16 the products read a copy of the average that is
    made in time, also where logits are read first.
    """
    plan = replace(micro_plan(ema_decay=0.9), precision=precision)
    tokens = np.arange(plan.shape.context, dtype=np.int32)
    with trained(device, corpus, plan) as trainer:
        logits = trainer.parts.next_logits(tokens, 7)
        trainer.parts.advance()
        after = trainer.parts.next_logits(tokens, 7)
        found = trainer.evaluate()
        average = trainer.parts.tensors()["ema"]
    assert (after != logits).any()
    asked = TrainConfig(heldout_batches=4)
    with Trainer(device, asked, plan, corpus, weights=average) as fresh:
        np.testing.assert_array_equal(fresh.parts.next_logits(tokens, 7), after)
        assert fresh.evaluate() == found
        begun = fresh.checkpoint()
        for name, value in begun.weights("plain").items():
            np.testing.assert_array_equal(value, begun.weights("ema")[name], err_msg=name)


def test_a_sample_is_of_the_average_unless_the_plain_weights_are_asked_for(
    device: Device, tmp_path: Path
) -> None:
    """The texts are those of runs that begin with these weights, and cannot move them."""
    micro_corpus(tmp_path)
    flags: dict[str, Any] = {
        "device": device.spec, "preset": "nano", "batch": 1, "data": tmp_path / "micro.txt",
        "heldout_batches": 1, "sample": 24, "temperature": 0.5,
    }  # fmt: skip
    averaged = {**flags, "ema_decay": 0.9, "steps": 6, "learning_rate": 0.05, "warmup": 0}
    still = {**flags, "steps": 1, "learning_rate": 1e-30, "weight_decay": 0.0}
    texts = {}
    for name, asked in (("ema", {}), ("plain", {"weights_out": "plain"})):
        said: list[str] = []
        out = tmp_path / name
        result = run(TrainConfig(**averaged, **asked, export=out), said.append)
        assert result.weights_out == name
        of = {"ema": "(average of the weights)", "plain": "(plain weights)"}[name]
        assert f"weights: written to {out} {of}" in said
        assert any(line.startswith(f"sample of 24 bytes at temperature 0.5 {of}:") for line in said)
        texts[name] = result.sample
        again = run(TrainConfig(**still, weights=out), said.append)
        assert again.sample == result.sample
    assert texts["ema"] != texts["plain"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"weights_out": "both"}, "^unknown --weights-out 'both'; use plain, ema"),
        ({"weights_out": "ema"}, "^--weights-out ema: the run keeps no average of the weights; le"),
        ({"weights_out": "ema", "ema_decay": 0.0}, "or begin one with --ema DECAY$"),
    ],
)
def test_an_average_that_there_is_not_cannot_come_out(flags: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        TrainConfig(**flags)


def test_a_resumed_run_may_choose_other_weights_of_those_it_has(tmp_path: Path) -> None:
    asked = {name: TrainConfig(resume=tmp_path, weights_out=name) for name in ("plain", "ema")}
    for config in asked.values():
        make_plan(config, "host", micro_plan(ema_decay=0.9))
    make_plan(asked["plain"], "host", micro_plan())
    with pytest.raises(ConfigError, match=r"^--weights-out ema: the run keeps no average"):
        make_plan(asked["ema"], "host", micro_plan())


def test_a_model_over_arenas_of_another_shape_is_refused(device: Device, corpus: Corpus) -> None:
    with trained(device, corpus, micro_plan(steps=2)) as trainer:
        parts = trainer.parts
        arenas = parts.model.parameters, parts.model.gradients
        other = replace(micro_plan(), shape=replace(SHAPE, layers=2))
        with pytest.raises(ConfigError, match="parameters has other tensors than the model; make"):
            parts.another_model(other, arenas)


def test_without_an_average_there_is_none(device: Device, corpus: Corpus) -> None:
    with trained(device, corpus, micro_plan(steps=2)) as trainer:
        assert trainer.weights_out == "plain"
        assert trainer.parts.model_out is trainer.parts.model
        assert sorted(trainer.parts.tensors()) == ["moment1", "moment2", "parameters"]
