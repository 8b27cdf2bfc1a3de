"""A resumed run is the one that was interrupted, bit for bit, however it was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lowgraph.driver import Device
from lowgraph.errors import ConfigError, LowgraphError
from lowgraph.models import CharLMConfig
from lowgraph.train import checkpoint
from lowgraph.train.checkpoint import Checkpoint
from lowgraph.train.config import TrainConfig
from lowgraph.train.data import Corpus, read_corpus
from lowgraph.train.loop import Trainer
from lowgraph.train.plan import Plan, Schedule, make_plan
from tests.train.runs import assert_same, micro_corpus, micro_plan, trained

pytestmark = pytest.mark.both

# nano's depth and heads in a quarter of its width: 100 steps of it are quick on the host device.
PLAN = Plan(
    "charlm",
    "quarter",
    CharLMConfig(context=16, width=16, heads=4, layers=2),
    Schedule(steps=100, warmup=10, learning_rate=0.01, batch=4, seed=3),
    log_every=20,
)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return micro_corpus(tmp_path)


def _run(
    device: Device, corpus: Corpus, folder: Path, *, resume: Path | None = None, **flags: Any
) -> tuple[list[float], Checkpoint]:
    """A run of PLAN with a checkpoint at step 50; returns its losses and its end."""
    config = TrainConfig(checkpoint=folder, checkpoint_every=50, **flags)
    found = None if resume is None else checkpoint.read(resume)
    plan = PLAN if found is None else make_plan(config, "host", found.plan)

    def write(trainer: Trainer) -> None:
        checkpoint.write(folder, trainer.checkpoint())

    with Trainer(device, config, plan, corpus, resume=found, on_checkpoint=write) as trainer:
        trainer.train()
        write(trainer)
        return trainer.losses, checkpoint.read(folder)


def test_a_hundred_steps_are_fifty_and_fifty(
    device: Device, corpus: Corpus, tmp_path: Path
) -> None:
    """Graphed, ungraphed, and resumed either way: the same losses and tensors."""
    with trained(device, corpus, PLAN) as trainer:  # without a checkpoint on the way
        straight_losses, straight = trainer.losses, trainer.checkpoint()
    first = tmp_path / "graphed"
    losses, end = _run(device, corpus, first)
    assert losses == straight_losses and len(losses) == 100
    assert_same(end, straight)
    half = first / checkpoint.PREVIOUS_NAME
    assert (checkpoint.read(half).step, end.step) == (50, 100)
    assert any(value.any() for value in checkpoint.read(half).moment2.values())
    for graph in (True, False):
        losses, end = _run(
            device, corpus, tmp_path / f"resumed {graph}", resume=half, graph=graph, log_every=7
        )
        assert losses == straight_losses[50:]
        assert_same(end, straight)


def test_a_run_without_a_graph_writes_the_same_file(
    device: Device, corpus: Corpus, tmp_path: Path
) -> None:
    ends = []
    for graph in (True, False):
        folder = tmp_path / str(graph)
        with trained(device, corpus, micro_plan(), graph=graph, checkpoint=folder) as trainer:
            file = checkpoint.write(folder, trainer.checkpoint())
        ends.append((checkpoint.read(file), file.stat().st_size))
    (graphed, size), (eager, other_size) = ends
    assert_same(graphed, eager)
    assert size == other_size
    differs = {name for name, value in graphed.config.items() if value != eager.config[name]}
    assert differs == {"graph", "checkpoint"}


def test_a_checkpoint_names_its_device_and_its_text(device: Device, corpus: Corpus) -> None:
    with trained(device, corpus, micro_plan()) as trainer:
        found = trainer.checkpoint()
    assert found.config["device"] == device.spec
    assert found.cursor == checkpoint.Cursor(12, 5, corpus.sha256, corpus.nbytes)


def test_checkpoints_come_at_their_steps_and_change_nothing(
    device: Device, corpus: Corpus, tmp_path: Path
) -> None:
    """With evaluations between them; the last step's is written by who ends the run."""
    told: list[tuple[str, int]] = []
    config = TrainConfig(heldout_batches=2, eval_every=6, checkpoint=tmp_path, checkpoint_every=3)
    with trained(device, corpus, micro_plan()) as plain:
        losses, end = plain.losses, plain.checkpoint()
    with Trainer(
        device, config, micro_plan(), corpus,
        on_checkpoint=lambda trainer: told.append(("checkpoint", trainer.checkpoint().step)),
        on_heldout=lambda trainer, _: told.append(("heldout", trainer.step)),
    ) as trainer:  # fmt: skip
        trainer.train()
        assert trainer.losses == losses
        assert_same(trainer.checkpoint(), end)
    assert told == [("checkpoint", 3), ("checkpoint", 6), ("heldout", 6), ("checkpoint", 9)]


def test_a_step_that_the_device_has_not_counted_is_no_checkpoint(
    device: Device, corpus: Corpus
) -> None:
    with trained(device, corpus, micro_plan(steps=3)) as trainer:
        trainer.parts.steps_done = 4
        with pytest.raises(LowgraphError, match="4 steps were issued, the device counts 3"):
            trainer.checkpoint()


def test_a_resume_that_cannot_go_on_is_refused(
    device: Device, corpus: Corpus, tmp_path: Path
) -> None:
    plan = micro_plan(steps=3)
    with trained(device, corpus, plan) as trainer:
        found = trainer.checkpoint()
    with pytest.raises(ConfigError, match="3 steps done; --steps 3 leaves none"):
        Trainer(device, TrainConfig(), plan, corpus, resume=found)
    (tmp_path / "other.txt").write_bytes(b"other text " * 100)
    other = read_corpus(tmp_path / "other.txt")
    with pytest.raises(ConfigError, match="the text is not the resumed run's"):
        Trainer(device, TrainConfig(), micro_plan(), other, resume=found)


def test_a_trainer_refuses_what_the_resumed_run_was_not(device: Device, corpus: Corpus) -> None:
    with trained(device, corpus, micro_plan(steps=3)) as trainer:
        found = trainer.checkpoint()
    with pytest.raises(ConfigError, match="--batch 4 differs from the resumed run's 3"):
        Trainer(device, TrainConfig(), micro_plan(batch=4), corpus, resume=found)
