"""Runs and gates in every precision: the flag, the same losses, resume, samples, bad words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph.driver import Device
from lowgraph.errors import ConfigError
from lowgraph.memory import download
from lowgraph.precision import Precision, bfloat16_bits
from lowgraph.train import verify
from lowgraph.train.checkpoint import Checkpoint
from lowgraph.train.config import TrainConfig
from lowgraph.train.datasets import read_data
from lowgraph.train.gates.foreign import ForeignRun, Protection
from lowgraph.train.loop import Trainer
from lowgraph.train.plan import Plan, make_plan
from tests.train.runs import MICRO, assert_same, example, micro_file, micro_plan, trained

pytestmark = pytest.mark.both

NARROW = ["tf32", "bf16"]


def plan_in(precision: str, model: str = "charlm", **changes: Any) -> Plan:
    return replace(micro_plan(model, **changes), precision=precision)


@pytest.mark.parametrize("model", MICRO)
@pytest.mark.parametrize("precision", NARROW)
def test_losses_are_those_of_float32(
    device: Device, model: str, precision: str, tmp_path: Path
) -> None:
    """Near, and not the same: a flag that does nothing would leave the bits alone."""
    data = read_data(model, micro_file(model, tmp_path))
    losses = {}
    for each in ("fp32", precision):
        trainer = trained(device, data, plan_in(each, model))
        losses[each] = np.array(trainer.losses)
        assert trainer.parts.graph_step.report().refusals == 0
        rounds = precision == "bf16" or trainer.parts.blas.backend == "kernel"
        trainer.close()
    off = np.abs(losses[precision] - losses["fp32"]).max()
    # Four roundings of an operand, of losses that begin below 6 nats.
    limit = {"tf32": 2.0**-11, "bf16": 2.0**-8}[precision]
    assert off <= 4 * limit * losses["fp32"][0]
    assert off > 0 or not rounds  # a GPU may take float32 for so small a product


@pytest.mark.parametrize("model", MICRO)
def test_a_sound_step_passes_every_gate_in_bf16(device: Device, model: str, tmp_path: Path) -> None:
    data = read_data(model, micro_file(model, tmp_path))
    gates = verify.verify(device, plan_in("bf16", model), data, steps=3)
    assert [gate.text() for gate in gates if not gate.passed] == []
    assert tuple(gate.name for gate in gates) == verify.GATES


def test_a_foreign_optimizer_moves_the_shadow_too(device: Device, tmp_path: Path) -> None:
    """The negative gate's: its eager arm would else compute with the first step's weights."""
    data = read_data("charlm", micro_file("charlm", tmp_path))
    run = ForeignRun(device, plan_in("bf16"), data, Protection.EAGER)
    run.run(3)
    model, stream = run.model, run.parts.stream
    assert model.shadow is not None
    wanted = bfloat16_bits(download(model.parameters.flat, stream))
    np.testing.assert_array_equal(download(model.shadow.flat, stream), wanted)
    run.close()


@pytest.mark.parametrize("precision", NARROW)
def test_a_resumed_run_ends_with_the_bits_of_a_whole_one(
    device: Device, precision: str, tmp_path: Path
) -> None:
    """A checkpoint has float32 alone; the shadow is made of it again."""
    data, plan = read_data("charlm", micro_file("charlm", tmp_path)), plan_in(precision)
    config = TrainConfig(heldout_batches=4, checkpoint=tmp_path, checkpoint_every=6)
    written: list[Checkpoint] = []
    for resume in (None, 0):
        begin = None if resume is None else written[resume]
        with Trainer(
            device, config, plan, data, resume=begin,
            on_checkpoint=lambda trainer: written.append(trainer.checkpoint()),
        ) as trainer:  # fmt: skip
            trainer.train()
            written.append(trainer.checkpoint())
    assert [each.step for each in written] == [6, 12, 12]
    assert_same(written[2], written[1])


def test_another_precision_is_another_run(tmp_path: Path) -> None:
    begun = plan_in("bf16")
    assert Plan.from_values(begun.values()) == begun
    assert make_plan(TrainConfig(), "host", begun).precision == "bf16"
    with pytest.raises(ConfigError, match="--precision tf32 differs from the resumed run's bf16"):
        make_plan(TrainConfig(precision="tf32"), "host", begun)
    assert make_plan(TrainConfig(), "host").precision == "fp32"


@pytest.mark.parametrize("word", ["bf32", "BF16", ""])
def test_a_word_that_is_none_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown precision '{word}'; use fp32, tf32, bf16"):
        TrainConfig(precision=word)
    values = {**micro_plan().values(), "precision": word}
    with pytest.raises(ValueError, match="Precision"):
        Plan.from_values(values)


@pytest.mark.parametrize(
    ("precision", "said"),
    [
        (None, ("float32, no TF32", "precision: float32 throughout")),
        ("tf32", ("TF32 operands", "precision: products in TF32")),
        ("bf16", ("bfloat16 operands", "precision: products and what they read in bfloat16")),
    ],
)
def test_the_command_says_and_writes_its_precision(
    request: pytest.FixtureRequest, precision: str | None, said: tuple[str, str], tmp_path: Path
) -> None:
    """And samples: logits come as numbers whatever the device holds."""
    spec, text = request.config.getoption("--device"), micro_file("charlm", tmp_path)
    flags = [] if precision is None else ["--precision", precision]
    done = example(
        "--device", spec, "--preset", "nano", "--steps", "3", "--batch", "1", "--data", str(text),
        "--json", str(tmp_path / "run.json"), "--sample", "5", *flags,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert all(line in done.stdout for line in said)
    found = json.loads((tmp_path / "run.json").read_text())
    slow = "; the host device emulates the tensor cores, about ten times slower than fp32\n"
    assert (slow in done.stdout) == (spec == "host" and precision == "bf16")
    assert found["precision"] == (precision or "fp32")
    assert found["refusals"] == 0 and found["replays"] == 2
    assert found["sample"]


def test_logits_are_numbers_in_every_precision(device: Device, tmp_path: Path) -> None:
    data = read_data("charlm", micro_file("charlm", tmp_path))
    tokens = np.arange(16, dtype=np.int32)
    found = {}
    for precision in map(str, Precision):
        trainer = trained(device, data, plan_in(precision))
        found[precision] = trainer.parts.next_logits(tokens, 7)
        trainer.close()
        assert found[precision].dtype == np.float32
    size = np.abs(found["fp32"]).max()
    for precision in NARROW:
        assert np.abs(found[precision] - found["fp32"]).max() < 0.1 * size
