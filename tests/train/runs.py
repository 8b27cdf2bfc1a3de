"""Small runs of the trainer for the tests, and the command in a process of its own."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lowgraph.driver import Device
from lowgraph.models import CharLMConfig
from lowgraph.models.mamba2_config import Mamba2Config, Mamba2LMConfig
from lowgraph.models.mlp import MlpConfig
from lowgraph.models.registry import find_model
from lowgraph.train.checkpoint import Checkpoint, Cursor
from lowgraph.train.config import TrainConfig
from lowgraph.train.data import Corpus, read_corpus
from lowgraph.train.datasets import Dataset
from lowgraph.train.loop import Trainer
from lowgraph.train.plan import Plan, Schedule
from lowgraph.train.snapshot import snapshot
from tests.support.process import ROOT, environment, run_command

__all__ = ["EXAMPLE", "MICRO", "ROOT", "SHAPE", "assert_same", "environment", "example",
           "filled_checkpoint", "micro_corpus", "micro_file", "micro_plan", "trained"]  # fmt: skip

EXAMPLE = ROOT / "examples" / "train_small.py"
SHAPE = CharLMConfig(context=16, width=16, heads=2, layers=1)
MICRO = {
    "charlm": SHAPE,
    "mamba2": Mamba2Config(features=3, width=8, context=7, head_size=8, state=4, conv=3, loops=2),
    "mamba2-lm": Mamba2LMConfig(width=8, context=16, layers=2, head_size=8, state=4),
    "mlp": MlpConfig(features=3, width=8, layers=2, classes=3),
}


def micro_file(model: str, folder: Path) -> Path:
    """A file to train MICRO[model] on."""
    makers = {"text": _micro_text, "series": _micro_series, "classes": _micro_classes}
    return makers[find_model(model).data](folder)


def micro_corpus(folder: Path) -> Corpus:
    """`_micro_text`, read."""
    return read_corpus(_micro_text(folder))


def _micro_series(folder: Path) -> Path:
    """300 rows of three features; the label is the sign of what two of them sum up to in time."""
    table = np.random.default_rng(0).normal(size=(300, 4))
    table[:, 3] = np.cumsum(table[:, 0]) + np.cumsum(table[:, 1]) > 0
    path = folder / "micro.npy"
    np.save(path, table)
    return path


def _micro_classes(folder: Path) -> Path:
    """300 rows of three features; the class is the place of the largest."""
    table = np.random.default_rng(0).normal(size=(300, 4))
    table[:, 3] = table[:, :3].argmax(axis=1)
    path = folder / "micro.npy"
    np.save(path, table)
    return path


def _micro_text(folder: Path) -> Path:
    """Two kilobytes of letters with some structure."""
    generator = np.random.default_rng(0)
    words = [bytes(generator.integers(97, 123, 5, dtype=np.uint8)) for _ in range(20)]
    text = b" ".join(words[n] for n in generator.integers(0, 20, 400))
    path = folder / "micro.txt"
    path.write_bytes(text)
    return path


def micro_plan(model: str = "charlm", **changes: Any) -> Plan:
    """A plan of 12 steps of MICRO[model]; `changes` are fields of its schedule."""
    schedule = Schedule(steps=12, warmup=2, learning_rate=0.01, batch=3, seed=5)
    return Plan(model, "micro", MICRO[model], replace(schedule, **changes), log_every=4)


def assert_same(ours: Checkpoint, theirs: Checkpoint) -> None:
    """Every bit of every tensor: NaN and -0.0 too."""
    for group in ("parameters", "moment1", "moment2"):
        left, right = getattr(ours, group), getattr(theirs, group)
        assert left.keys() == right.keys()
        for name, value in left.items():
            same = value.view(np.uint32) == right[name].view(np.uint32)
            assert same.all(), f"{group} {name}: {(~same).sum()} of {same.size} elements differ"
    assert ours.cursor == theirs.cursor


def trained(device: Device, data: Dataset, plan: Plan, **flags: Any) -> Trainer:
    """A trainer that has run to its end; the caller closes it."""
    trainer = Trainer(device, TrainConfig(heldout_batches=4, **flags), plan, data)
    trainer.train()
    return trainer


def filled_checkpoint(
    step: int,
    shape: CharLMConfig | None = None,
    model: str = "charlm",
    ema_decay: float = 0.0,
) -> Checkpoint:
    """One whose tensors say which step they are of: each element is `step` + 0, 1/4 or 1/2.

    With an average of the weights, that is `step` + 3/4.
    """
    plan = micro_plan(model, ema_decay=ema_decay)
    plan = plan if shape is None else replace(plan, shape=shape)
    groups = {}
    names = ("parameters", "moment1", "moment2", *(["ema"] if ema_decay else []))
    for number, group in enumerate(names):
        value = np.float32(step + number / 4)
        groups[group] = {
            spec.name: np.full(spec.shape, value) for spec in find_model(model).specs(plan.shape)
        }
    cursor = Cursor(step, plan.schedule.seed, "ab" * 32, 2000)
    return Checkpoint(plan, snapshot(TrainConfig(), plan.values()), cursor, **groups)


def example(*flags: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run examples/train_small.py in a process of its own, with environment `variables`."""
    return run_command(str(EXAMPLE), *flags, timeout=240, **variables)
