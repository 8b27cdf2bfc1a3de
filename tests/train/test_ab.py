"""`python -m lowgraph ab`: two arms over the same steps, compared bit for bit, timed alike."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph.driver import Device
from lowgraph.errors import ConfigError, GateFailed
from lowgraph.train import ab
from lowgraph.train.config import TrainConfig
from lowgraph.train.loop import Trainer
from tests.train.runs import micro_corpus, micro_plan, trained

pytestmark = pytest.mark.both


def test_both_arms_are_the_same_bits_in_fewer_launches(device: Device, tmp_path: Path) -> None:
    """And the losses are those of a trainer of the same plan: nothing was measured beside it."""
    corpus, plan = micro_corpus(tmp_path), micro_plan(steps=11)
    found = ab.measure(device, TrainConfig(), plan, corpus)
    assert found.faults() == []
    with trained(device, corpus, plan) as trainer:
        assert found.graphed.losses == found.ungraphed.losses == trainer.losses
        report = trainer.parts.graph_step.report()
    with trained(device, corpus, plan, graph=False) as trainer:
        eager = trainer.parts.graph_step.report()
    assert found.graphed.launches_per_step == 1
    assert found.ungraphed.launches_per_step == eager.launches_eager_step
    assert found.ungraphed.library_calls_per_step == eager.library_calls_eager_step
    assert (found.graphed.captures, found.ungraphed.captures) == (1, 0)
    assert (found.graphed.nodes, found.ungraphed.nodes) == (report.nodes, 0)
    # Laps of five steps; those after the first five are timed: six to ten, and the eleventh.
    assert found.warm_after == 5
    for arm in (found.graphed, found.ungraphed):
        five, one = arm.lap_us
        assert arm.step_us == pytest.approx((5 * five + one) / 6)
        assert min(five, one) > 0
    assert found.speedup == found.ungraphed.step_us / found.graphed.step_us


class _OtherDecay(Trainer):
    """A trainer whose ungraphed step decays the weights by less."""

    def __init__(self, device: Device, config: TrainConfig, plan: Any, *given: Any, **named: Any):
        if not config.graph:
            plan = replace(plan, schedule=replace(plan.schedule, weight_decay=0.09))
        super().__init__(device, config, plan, *given, **named)


class _NoGraph(Trainer):
    """A trainer that never records."""

    def __init__(self, device: Device, config: TrainConfig, *given: Any, **named: Any):
        super().__init__(device, replace(config, graph=False), *given, **named)


def _config(folder: Path, device: Device, **flags: Any) -> TrainConfig:
    corpus = micro_corpus(folder).source
    return TrainConfig(
        device=device.spec, preset="nano", steps=4, batch=1, data=Path(corpus),
        json=folder / "ab.json", **flags,
    )  # fmt: skip


def test_the_file_and_the_picture(device: Device, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    said: list[str] = []
    picture = tmp_path / "ab.png"
    found = ab.run(_config(tmp_path, device, plot=picture), said.append)
    written = json.loads((tmp_path / "ab.json").read_text())
    assert written["graphed"]["losses"] == found.graphed.losses
    assert written["ungraphed"]["losses"] == found.ungraphed.losses
    assert len(found.graphed.losses) == written["steps"] == 4
    assert (written["losses_equal"], written["parameters_equal"]) == (True, True)
    assert written["first_difference"] is None
    assert written["warm_after"] == 2
    assert written["graphed"]["step_us"] / written["ungraphed"]["step_us"] == pytest.approx(
        1 / written["speedup"]
    )
    assert {"device", "model", "preset", "data_sha256", "seed", "version"} <= written.keys()
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "the losses of all 4 steps and the final parameters are the same bits" in said
    warned = any(line.startswith("on the host device both times are a CPU's") for line in said)
    assert warned == (device.kind == "host")


def test_arms_that_differ_fail_and_name_the_step(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Step 1 decays after its loss is known, so that step 2 is the first to show it."""
    monkeypatch.setattr(ab, "Trainer", _OtherDecay)
    with pytest.raises(GateFailed, match=r"losses differ from step 2 on: .*; the final parameters"):
        ab.run(_config(tmp_path, device, learning_rate=0.05, warmup=0), lambda text: None)
    written = json.loads((tmp_path / "ab.json").read_text())
    assert written["losses_equal"] is False
    first = written["first_difference"]
    assert first["step"] == 2
    assert first["graphed"] == written["graphed"]["losses"][1]
    assert first["ungraphed"] == written["ungraphed"]["losses"][1]
    assert "e.weight" in written["parameters_differ"]


def test_without_a_graph_there_is_nothing_to_compare(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ab, "Trainer", _NoGraph)
    with pytest.raises(GateFailed, match="the graphed arm has no graph: asked for with --no-graph"):
        ab.run(_config(tmp_path, device), lambda text: None)


def test_too_few_steps_are_refused(device: Device, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--steps must be at least 4, got 3"):
        ab.measure(device, TrainConfig(), micro_plan(steps=3), micro_corpus(tmp_path))


def test_nan_is_equal_to_itself_and_zeros_of_two_signs_are_not() -> None:
    """Two arms that diverge alike are the same; JSON has no NaN, and says null."""
    nan = float("nan")
    assert ab._first_difference([1.0, nan], [1.0, nan]) is None
    first = ab._first_difference([0.0, nan], [-0.0, nan])
    assert first is not None
    assert first.step == 1
    assert not ab._same_bits(np.float32([0.0]), np.float32([-0.0]))
