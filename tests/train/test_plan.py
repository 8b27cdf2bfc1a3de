"""A plan takes each setting from the flags, else from the checkpoint, else from the preset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lowgraph.errors import ConfigError
from lowgraph.models.presets import PRESETS
from lowgraph.models.registry import MODELS
from lowgraph.ops.control import read_control
from lowgraph.train.config import TrainConfig
from lowgraph.train.datasets import check_data
from lowgraph.train.plan import make_plan
from tests.train.linear_series import LINEAR, LinearConfig, linear_plan, separable_series
from tests.train.runs import micro_corpus


def test_what_flags_leave_open_comes_from_the_preset() -> None:
    plan = make_plan(TrainConfig(), device_kind="host")
    preset, schedule = PRESETS["nano"], plan.schedule
    assert (plan.preset, plan.shape) == ("nano", preset.model)
    assert (schedule.steps, schedule.batch) == (preset.steps, preset.batch)
    assert schedule.learning_rate == preset.learning_rate
    assert (schedule.warmup, plan.log_every) == (preset.steps // 10, preset.steps // 20)


def test_what_flags_say_is_taken() -> None:
    asked = TrainConfig(
        preset="tiny", steps=3, batch=5, seed=9, learning_rate=0.25, warmup=0, weight_decay=0.5,
        log_every=2,
    )  # fmt: skip
    plan = make_plan(asked, device_kind="host")
    schedule = plan.schedule
    assert (plan.preset, plan.log_every) == ("tiny", 2)
    assert (schedule.steps, schedule.batch, schedule.seed) == (3, 5, 9)
    assert (schedule.learning_rate, schedule.warmup, schedule.weight_decay) == (0.25, 0, 0.5)


def test_progress_lines_of_an_endless_run_still_come() -> None:
    assert make_plan(TrainConfig(steps=2**62), "host").log_every == 1_000_000


def test_the_warm_up_is_at_most_a_hundred_steps() -> None:
    assert make_plan(TrainConfig(steps=100_000), "host").schedule.warmup == 100


def test_a_warm_up_longer_than_the_run_is_refused() -> None:
    with pytest.raises(ConfigError, match="--warmup 9 is longer than the run of 8 steps"):
        make_plan(TrainConfig(steps=8, warmup=9), "host")


def test_a_resumed_plan_stays_as_it_was() -> None:
    begun = make_plan(TrainConfig(preset="tiny", steps=30, seed=4, batch=2), "host")
    resumed = make_plan(TrainConfig(), "cuda", begun)
    assert resumed == begun


def test_a_resumed_plan_may_be_longer() -> None:
    begun = make_plan(TrainConfig(steps=30), "host")
    resumed = make_plan(TrainConfig(steps=50), "host", begun)
    assert resumed.schedule.steps == 50
    assert resumed.schedule.warmup == begun.schedule.warmup


@pytest.mark.parametrize(
    ("flag", "field"),
    [
        ("--preset", {"preset": "small"}),
        ("--batch", {"batch": 3}),
        ("--seed", {"seed": 1}),
        ("--lr", {"learning_rate": 0.5}),
        ("--warmup", {"warmup": 1}),
        ("--weight-decay", {"weight_decay": 0.0}),
        ("--clip", {"clip_norm": 1.0}),
        ("--ema", {"ema_decay": 0.5}),
        ("--accumulate", {"accumulate": 2}),
        ("--schedule", {"schedule": "linear"}),
        ("--final-share", {"final_share": 0.0}),
    ],
)
def test_a_resumed_plan_refuses_another_setting(flag: str, field: dict[str, Any]) -> None:
    begun = make_plan(TrainConfig(), "host")
    with pytest.raises(ConfigError, match=f"^{flag} .* differs from the resumed run's"):
        make_plan(TrainConfig(**field), "host", begun)


def test_the_control_block_holds_the_schedule() -> None:
    schedule = make_plan(TrainConfig(steps=40, seed=7, learning_rate=0.5), "host").schedule
    block = read_control(schedule.control_block(step=3))
    assert (block["total_steps"], block["warmup_steps"], block["step"]) == (40, 4, 3)
    assert (block["seed"], block["beta1"], block["beta2"]) == (7, 0.9, 0.99)
    assert block["lr_max"] == pytest.approx(0.5)
    assert block["lr_min"] == pytest.approx(0.05)


@pytest.fixture
def linear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "linear", LINEAR)


@pytest.mark.usefixtures("linear")
def test_the_model_is_the_flags_else_the_resumed_runs_else_the_default() -> None:
    begun = make_plan(TrainConfig(model="linear"), "host")
    assert (begun.model, begun.preset, begun.shape) == ("linear", "five", LinearConfig(7, 5))
    assert make_plan(TrainConfig(), "host", begun) == begun
    assert make_plan(TrainConfig(), "host").model == "charlm"
    with pytest.raises(ConfigError, match="--model charlm differs from the resumed run's linear"):
        make_plan(TrainConfig(model="charlm"), "host", begun)


@pytest.mark.usefixtures("linear")
def test_a_preset_is_one_of_its_model() -> None:
    assert make_plan(TrainConfig(model="linear", preset="five"), "cuda").preset == "five"
    with pytest.raises(ConfigError, match="unknown preset 'nano' of linear; there are five"):
        TrainConfig(model="linear", preset="nano")
    # Whose preset it is the checkpoint says, which is not read yet.
    assert TrainConfig(preset="five", resume=Path("folder")).model is None


@pytest.mark.usefixtures("linear")
def test_data_of_another_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"linear is trained on series; .*micro\.txt is text"):
        check_data(linear_plan(), micro_corpus(tmp_path))
    with pytest.raises(ConfigError, match="charlm is trained on text; made is series"):
        check_data(make_plan(TrainConfig(), "host"), separable_series())
