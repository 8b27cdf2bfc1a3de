"""Classes of rows: files, the drawn set, batches, and an mlp that learns them by SGD."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph.driver import Device
from lowgraph.errors import ConfigError, PoolError
from lowgraph.memory import PersistentPool, download
from lowgraph.models import find_preset
from lowgraph.ops.philox import batch_starts
from lowgraph.optim import Sgd
from lowgraph.precision import bfloat16_bits
from lowgraph.train import checkpoint
from lowgraph.train.classes import drawn_classes, read_classes
from lowgraph.train.config import TrainConfig
from lowgraph.train.loop import Trainer
from lowgraph.train.parts import Parts
from lowgraph.train.plan import Plan, Schedule
from tests.train.runs import example

pytestmark = pytest.mark.both

SHAPE = find_preset("mlp", "nano").model


def write_csv(path: Path, labels: list[float], columns: int = 2) -> Path:
    lines = [",".join([*(f"c{n}" for n in range(columns)), "label"])]
    lines += [",".join([*(f"{row + n}" for n in range(columns)), f"{label:g}"])
              for row, label in enumerate(labels)]  # fmt: skip
    path.write_text("\n".join(lines))
    return path


def plan_of(**changes: Any) -> Plan:
    schedule = {"steps": 60, "warmup": 2, "learning_rate": 0.1, "batch": 16, "weight_decay": 0.0}
    return Plan("mlp", "nano", SHAPE, Schedule(**{**schedule, **changes}), log_every=10)


def test_a_sorted_file_is_shuffled_before_it_is_split(tmp_path: Path) -> None:
    found = read_classes(write_csv(tmp_path / "s.csv", [0] * 50 + [1] * 50 + [2] * 100))
    assert found.classes == 3
    assert len(found.train.labels) == 180
    assert len(set(found.heldout.labels)) > 1, "unshuffled it would be the last class alone"
    again = read_classes(tmp_path / "s.csv")
    np.testing.assert_array_equal(again.train.features, found.train.features)
    fitted, shape = found.fit(SHAPE)
    assert (shape.features, shape.classes) == (2, 3)
    assert "200 rows of 2 features" in fitted.describe()
    with pytest.raises(ConfigError, match="has 2 features, the model takes 16"):
        found.check(SHAPE, 4)


@pytest.mark.parametrize(
    ("label", "words"),
    [(0.5, "line 4, column 3 .label. is 0.5; a class is a whole number from 0"),
     (-1, "is -1; a class is a whole number"), (65536, "is 65536; a class is")],
)  # fmt: skip
def test_a_label_that_is_no_class_is_named(tmp_path: Path, label: float, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_classes(write_csv(tmp_path / "s.csv", [0, 1, label, 1, 0, 1, 0, 1, 1, 1]))


def test_more_classes_than_the_model_has_are_refused() -> None:
    data = drawn_classes(16, 9)
    with pytest.raises(ConfigError, match="labels up to 8, the model 4 classes"):
        data.check(SHAPE, 4)
    assert data.baseline() == pytest.approx(np.log(9), abs=0.01)  # classes are drawn evenly


def test_a_batch_is_the_rows_that_the_generator_draws(device: Device) -> None:
    plan, data = plan_of(seed=3), drawn_classes(SHAPE.features, SHAPE.classes)
    parts = Parts(device, plan, data, graph=False, ring_slots=4)
    try:
        for number in (1, 2):
            starts = batch_starts(3, number, 16, 1, len(data.train.labels) + 1).astype(np.int64)
            # The counter is one behind: a draw gives the batch of the step that is next.
            parts.feeds.train.stage(number)
            with parts.pool.eager_pass("look"):
                batch = parts.feeds.train.draw(parts.stream)
                inputs, targets = (download(piece, parts.stream) for piece in batch[:2])
            np.testing.assert_array_equal(inputs[:, 0], data.train.features[starts])
            np.testing.assert_array_equal(targets[:, 0], data.train.labels[starts].astype(np.int32))
            assert targets.dtype == np.int32
            parts.advance()
    finally:
        parts.close()


def test_a_run_learns_and_resumes_bit_for_bit(device: Device, tmp_path: Path) -> None:
    data, plan = drawn_classes(SHAPE.features, SHAPE.classes), plan_of()
    config = TrainConfig(heldout_batches=4, checkpoint=tmp_path, checkpoint_every=30)

    def keep(trainer: Trainer) -> None:
        checkpoint.write(tmp_path, trainer.checkpoint())

    with Trainer(device, config, plan, data, on_checkpoint=keep) as trainer:
        trainer.train()
        straight, end = trainer.losses, trainer.checkpoint()
        assert isinstance(trainer.parts.optimizer, Sgd)
        assert trainer.parts.graph_step.report().replays == 59
        assert trainer.evaluate() < data.baseline() / 2
    half = checkpoint.read(checkpoint.find(tmp_path))
    assert (half.step, half.moment1, half.moment2) == (30, {}, {})
    with Trainer(device, config, half.plan, data, resume=half) as trainer:
        trainer.train()
        assert trainer.losses == straight[30:]
        resumed = trainer.checkpoint()
    assert all((resumed.parameters[name] == v).all() for name, v in end.parameters.items())


def test_a_file_of_classes_from_the_command_line(device: Device, tmp_path: Path) -> None:
    """The class is the first column's third: an mlp of three classes finds it."""
    rows = np.random.default_rng(1).uniform(0, 3, (300, 2))
    np.save(tmp_path / "rows.npy", np.column_stack([rows, np.floor(rows[:, 0])]))
    flags = ("--device", device.spec, "--model", "mlp", "--preset", "nano", "--steps", "300")
    done = example(*flags, "--data", str(tmp_path / "rows.npy"))
    assert done.returncode == 0, done.stdout + done.stderr
    for said in ("classes 3", " rows each, seed 0", " the train class rates'\n"):
        assert said in done.stdout
    held_out = float(done.stdout.partition("held-out loss ")[2].split()[0])
    assert held_out < 0.5, "ln 3 = 1.1 knows nothing"
    refused = example(*flags, "--ema", "0.9")
    assert refused.returncode == 2
    assert "SGD keeps no average of the weights; leave out --ema" in refused.stderr


def test_sgd_keeps_the_shadow_and_refuses_what_is_not_its(device: Device) -> None:
    plan = Plan("mlp", "nano", SHAPE, plan_of().schedule, 10, "bf16")
    data = drawn_classes(SHAPE.features, SHAPE.classes)
    parts = Parts(device, plan, data, graph=True, ring_slots=8)
    try:
        first = download(parts.model.parameters.flat, parts.stream)
        for _ in range(4):
            parts.advance()
        values = download(parts.model.parameters.flat, parts.stream)
        shadow = parts.model.shadow
        assert shadow is not None
        assert (values != first).any()
        np.testing.assert_array_equal(download(shadow.flat, parts.stream), bfloat16_bits(values))
        given = parts.library, parts.model.parameters
        with pytest.raises(ConfigError, match="keeps no average"):
            Sgd(*given, parts.model.gradients, 0, parts.stream, ema=True)
        other = Parts(device, replace(plan, shape=replace(SHAPE, width=8)), data, graph=False,
                      ring_slots=2)  # fmt: skip
        try:
            with pytest.raises(ConfigError, match=r"another layout.*make it by parameters.like"):
                Sgd(*given, other.model.gradients, 0, parts.stream)
        finally:
            other.close()
    finally:
        parts.close()


def test_a_view_has_the_same_bytes_and_life(device: Device) -> None:
    pool = PersistentPool(device)
    piece = pool.take("x", (3, 2))
    view = piece.viewed(np.int32)
    assert (view.address, view.shape, view.dtype) == (piece.address, (3, 2), np.int32)
    with pytest.raises(PoolError, match="4 bytes an element: it cannot be viewed as int64"):
        piece.viewed(np.int64)
    pool.give_back(piece)
    assert not view.alive
    pool.close()
