"""`--timers` and `--log` of the trainer."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lowgraph.driver import Device
from lowgraph.memory import download
from lowgraph.ops.control import read_control
from lowgraph.train.loop import Trainer
from lowgraph.train.said import Progress
from tests.train.runs import example, micro_corpus, micro_plan, trained

pytestmark = pytest.mark.both


@pytest.fixture
def spec(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--device"))


def _losses(trainer: Trainer) -> list[float]:
    with trainer:
        return trainer.losses


def test_timed_training_is_the_same_training(device: Device, tmp_path: Path) -> None:
    corpus, plan = micro_corpus(tmp_path), micro_plan()
    plain = _losses(trained(device, corpus, plan))
    with trained(device, corpus, plan, timers=True) as timed:
        assert timed.losses == plain
        timers = timed.parts.timers
        assert timers is not None
        # A lap ends behind the warm steps, at each fourth step and at the end.
        assert sorted({row.step for row in timers.rows}) == [2, 4, 8, 12]
        found = {one.stage: one for one in timers.summary()}
        report = timed.parts.graph_step.report()
        outer = [one for one in found.values() if one.outermost]
        assert sum(one.nodes for one in outer) == report.kernels
        assert {
            name: one.own_nodes for name, one in found.items() if one.own_nodes
        } == report.stages
        assert all(one.us > 0 for one in outer)
        assert report.launches_replay_step == 1


def test_without_timers_no_event_is_in_the_graph(device: Device, tmp_path: Path) -> None:
    with trained(device, micro_corpus(tmp_path), micro_plan()) as trainer:
        report = trainer.parts.graph_step.report()
        assert trainer.parts.timers is None and "event_record" not in report.nodes_by_type


@pytest.mark.parametrize("warmup", [0, 2, 12])
def test_the_rate_that_is_logged_is_the_devices(
    device: Device, tmp_path: Path, warmup: int
) -> None:
    plan = micro_plan(warmup=warmup)
    with Trainer(device, _config(), plan, micro_corpus(tmp_path)) as trainer:
        for step in range(1, 14):
            trainer.parts.advance()
            block = read_control(download(trainer.parts.control, trainer.parts.stream))
            # The device keeps the rate as float32.
            assert plan.schedule.rate(step) == pytest.approx(block["lr"], rel=1e-6)


def _config() -> Any:
    from lowgraph.train.config import TrainConfig

    return TrainConfig(heldout_batches=1)


def _run(spec: str, log: Path, *flags: str) -> dict[str, Any]:
    figures = log.parent / "figures.json"
    common = ("--device", spec, "--preset", "nano", "--batch", "1", "--steps", "6")
    done = example(*common, "--log-every", "2", "--eval-every", "4", "--log", str(log),
                   "--json", str(figures), *flags)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(figures.read_text())
    found["said"] = done.stdout
    return found


def test_a_csv_log_has_what_the_json_file_has(spec: str, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    result = _run(spec, path, "--timers")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    laps = {int(row["step"]): row for row in rows if row["loss"]}
    assert {step: float(row["loss"]) for step, row in laps.items()} == {
        step: result["losses"][step - 1] for step in (2, 4, 6)
    }
    assert all(float(row["gradient_norm"]) > 0 for row in laps.values())
    assert all(float(row["step_ms"]) > 0 < float(row["learning_rate"]) for row in laps.values())
    heldout = [[int(row["step"]), float(row["heldout_loss"])] for row in rows if not row["loss"]]
    assert heldout == result["heldout"] and [step for step, _ in heldout] == [4, 6]
    stages = {one["stage"]: one for one in result["stages"]}
    assert stages["forward"]["nodes"] > 0 < stages["backward"]["us"]
    assert "stages over the last 1 step, inner ones included:" in result["said"]


def test_a_tensorboard_log_has_it_too(spec: str, tmp_path: Path) -> None:
    result = _run(spec, tmp_path / "run")
    reader = EventAccumulator(str(tmp_path / "run"))
    reader.Reload()
    losses = {event.step: event.value for event in reader.Scalars("train/loss")}
    # An event's value is a float32, as the loss is.
    assert losses == {step: result["losses"][step - 1] for step in (2, 4, 6)}
    assert [e.step for e in reader.Scalars("heldout/loss")] == [4, 6]
    assert [e.step for e in reader.Scalars("train/gradient_norm")] == [2, 4, 6]
    assert result["stages"] == [] and "inner ones included" not in result["said"]


@pytest.mark.parametrize("name", ["none/run.csv", "run.txt", "figures.json"])
def test_a_log_that_cannot_be_is_refused(spec: str, tmp_path: Path, name: str) -> None:
    done = example("--device", spec, "--log", str(tmp_path / name),
                   "--json", str(tmp_path / "figures.json"))  # fmt: skip
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("error: --") and done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("steps", "told"),
    [(3, "graph: # nodes captured"), (1, "graph: none; it is recorded at the second step")],
)
def test_the_graph_is_told_of_once_it_is_known(
    device: Device, tmp_path: Path, steps: int, told: str
) -> None:
    """With --timers the first line is read before the second step, which records the graph."""
    from lowgraph.train.config import TrainConfig

    said: list[str] = []
    corpus = micro_corpus(tmp_path)
    progress = Progress(said.append, corpus, None)
    plan = replace(micro_plan(steps=steps, warmup=0), log_every=1)
    config = TrainConfig(heldout_batches=1, timers=True)
    with Trainer(device, config, plan, corpus, on_lap=progress.lap) as trainer:
        trainer.train()
    graph = [line for line in said if line.startswith("graph: ")]
    assert len(graph) == 1 and re.sub(r"\d+", "#", graph[0]).startswith(told)
