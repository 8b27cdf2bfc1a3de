"""Every model resumes bit for bit through its own feed, at a step that was asked for and killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lowgraph.driver import Device
from lowgraph.errors import ConfigError
from lowgraph.models.registry import MODELS
from lowgraph.train import checkpoint
from lowgraph.train.checkpoint import Checkpoint
from lowgraph.train.config import TrainConfig
from lowgraph.train.datasets import Dataset, read_data
from lowgraph.train.loop import Trainer
from lowgraph.train.plan import make_plan
from tests.support.settings import settings
from tests.train.runs import MICRO, ROOT, assert_same, environment, micro_file, micro_plan, trained

pytestmark = pytest.mark.both

every_model = pytest.mark.parametrize("model", MODELS)


def _micro_data(model: str, folder: Path) -> Dataset:
    return read_data(model, micro_file(model, folder))


def test_every_model_is_tried() -> None:
    assert MICRO.keys() == MODELS.keys()


@every_model
def test_ten_steps_are_five_and_five(device: Device, model: str, tmp_path: Path) -> None:
    """Graphed, ungraphed, and either resumed either way: the same losses and tensors."""
    data = _micro_data(model, tmp_path)
    ends: list[tuple[list[float], Checkpoint]] = []
    for graph in (True, False):
        with trained(device, data, micro_plan(model, steps=10), graph=graph) as trainer:
            ends.append((trainer.losses, trainer.checkpoint()))
        half = _stopped_at_five(device, model, data, tmp_path / str(graph), graph)
        for again in (True, False):
            config = TrainConfig(graph=again, log_every=3)
            plan = make_plan(config, device.kind, half.plan)
            with Trainer(device, config, plan, data, resume=half) as trainer:
                trainer.train()
                assert trainer.losses == ends[0][0][5:]
                assert_same(trainer.checkpoint(), ends[0][1])
    assert ends[0][0] == ends[1][0] and len(set(ends[0][0])) == 10
    assert_same(ends[0][1], ends[1][1])


def _stopped_at_five(
    device: Device, model: str, data: Dataset, folder: Path, graph: bool
) -> Checkpoint:
    """What a run of ten wrote after five steps, read from its file."""
    config = TrainConfig(checkpoint=folder, checkpoint_every=5, graph=graph)
    plan = micro_plan(model, steps=10)

    def write(trainer: Trainer) -> None:
        checkpoint.write(folder, trainer.checkpoint())

    with Trainer(device, config, plan, data, on_checkpoint=write) as trainer:
        trainer.train()
    found = checkpoint.read(folder)
    assert found.step == 5
    return found


def test_a_series_that_is_not_the_resumed_runs_is_refused(device: Device, tmp_path: Path) -> None:
    file = micro_file("mamba2", tmp_path)
    data = read_data("mamba2", file)
    with trained(device, data, micro_plan("mamba2", steps=3)) as trainer:
        found = trainer.checkpoint()
    content = bytearray(file.read_bytes())
    content[-9] ^= 1  # a bit of the last feature
    file.write_bytes(content)
    other = read_data("mamba2", file)
    with pytest.raises(ConfigError, match=r"the series is not the resumed run's: .* give the same"):
        Trainer(device, TrainConfig(), micro_plan("mamba2"), other, resume=found)


def _kill_runs(device: Device, model: str, folder: Path, steps: int, kills: int) -> int:
    """Run with so many kills, then to the end; returns how many kills met a running loop."""
    file = micro_file(model, folder)
    command = [sys.executable, "-m", "tests.train.resumed_run", device.spec, model, str(file),
               str(folder / "ckpt"), str(steps)]  # fmt: skip
    pause, met = random.Random(4), 0
    for _ in range(kills):
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment()
        ) as running:
            assert running.stdout is not None
            assert running.stdout.readline() != "", "it ended before its first checkpoint"
            time.sleep(pause.uniform(0, 0.1))
            os.kill(running.pid, signal.SIGKILL)
        met += running.returncode == -signal.SIGKILL
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return met


def _killed_equals_straight(device: Device, model: str, folder: Path, kills: int) -> None:
    steps = 150 * kills
    assert _kill_runs(device, model, folder, steps, kills) > 0
    data = _micro_data(model, folder)
    with trained(device, data, micro_plan(model, steps=steps)) as trainer:
        assert_same(checkpoint.read(folder / "ckpt"), trainer.checkpoint())
    names = {checkpoint.FILE_NAME, checkpoint.PREVIOUS_NAME}
    assert set(os.listdir(folder / "ckpt")) == names


@pytest.mark.parametrize("model", settings(["charlm", "mlp"], ["mamba2"]))  # a feed of each kind
def test_a_run_killed_at_random_goes_on(device: Device, model: str, tmp_path: Path) -> None:
    _killed_equals_straight(device, model, tmp_path, kills=2)


@pytest.mark.exhaustive
@every_model
def test_a_run_killed_many_times_goes_on(device: Device, model: str, tmp_path: Path) -> None:
    _killed_equals_straight(device, model, tmp_path, kills=8)
