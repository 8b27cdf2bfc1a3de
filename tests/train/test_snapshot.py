"""Every setting of a run is in its checkpoint, and one that matters may not change on the way."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from safetensors import safe_open

from lowgraph.driver import Device
from lowgraph.errors import ConfigError
from lowgraph.models.presets import CharLMConfig
from lowgraph.models.registry import MODELS
from lowgraph.train import checkpoint
from lowgraph.train.arguments import _build
from lowgraph.train.checks import flag
from lowgraph.train.config import TrainConfig
from lowgraph.train.plan import Plan, Schedule, make_plan
from lowgraph.train.snapshot import MAY_CHANGE, refuse_changes, snapshot
from lowgraph.train.start import what_is_not_the_same
from tests.train.runs import filled_checkpoint, micro_plan

# A value that no field has in BASE. A new field of TrainConfig needs a line here; what it matters
# to a resumed run is then asked of snapshot.MAY_CHANGE.
CHANGED: dict[str, Any] = {
    "device": "cuda:1",
    "model": "other",
    "preset": "tiny",
    "precision": "bf16",
    "steps": 77,
    "batch": 7,
    "data": Path("text"),
    "seed": 9,
    "learning_rate": 0.5,
    "warmup": 3,
    "weight_decay": 0.25,
    "clip_norm": 2.0,
    "ema_decay": 0.75,
    "accumulate": 3,
    "schedule": "linear",
    "final_share": 0.5,
    "log_every": 11,
    "eval_every": 5,
    "heldout_batches": 2,
    "graph": False,
    "sample": 4,
    "temperature": 0.5,
    "json": Path("f.json"),
    "plot": Path("f.png"),
    "log": Path("f.csv"),
    "timers": True,
    "checkpoint": Path("other"),
    "checkpoint_every": 6,
    "resume": Path("from"),
    "weights": Path("weights"),
    "export": Path("folder"),
    "weights_out": "plain",
}
BASE = TrainConfig(checkpoint=Path("out"))
MATTERS = {
    "model", "preset", "precision", "batch", "seed", "learning_rate", "warmup", "weight_decay",
    "clip_norm", "ema_decay", "accumulate", "schedule", "final_share", "weights",
}  # fmt: skip


@pytest.fixture(autouse=True)
def two_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "other", MODELS["charlm"])


def _snapshot(**changes: Any) -> dict[str, Any]:
    config = replace(BASE, **changes)
    return snapshot(config, make_plan(config, "host").values())


def _in_the_file(folder: Path, **changes: Any) -> dict[str, Any]:
    written = replace(filled_checkpoint(1), config=_snapshot(**changes))
    with safe_open(str(checkpoint.write(folder, written)), framework="numpy") as opened:
        config: dict[str, Any] = json.loads(opened.metadata()["lowgraph"])["config"]
    return config


def test_every_setting_is_changed_by_these_tests() -> None:
    assert [field.name for field in fields(TrainConfig)] == list(CHANGED)


def test_a_checkpoint_holds_every_setting(tmp_path: Path) -> None:
    base = _in_the_file(tmp_path)
    assert list(CHANGED) == sorted(base, key=list(CHANGED).index)
    for name, value in CHANGED.items():
        kept = _in_the_file(tmp_path, **{name: value})[name]
        assert kept != base[name], name
        assert kept == (str(value) if isinstance(value, Path) else value), name


def test_nothing_that_the_flags_left_open_is_open_in_the_snapshot() -> None:
    unset = {name for name, value in _snapshot().items() if value is None}
    assert unset == {"data", "json", "plot", "log", "resume", "weights", "export",
                     "weights_out"}  # fmt: skip


def test_what_may_change_is_declared_with_its_reason() -> None:
    assert set(CHANGED) - set(MAY_CHANGE) == MATTERS
    assert set(MAY_CHANGE) < set(CHANGED) and all(MAY_CHANGE.values())


@pytest.mark.parametrize("name", list(CHANGED))
def test_a_change_is_refused_unless_declared(name: str) -> None:
    kept, asked = _snapshot(), {**_snapshot(), name: CHANGED[name]}
    if name in MAY_CHANGE:
        refuse_changes(kept, asked)
        return
    with pytest.raises(ConfigError) as caught:
        refuse_changes(kept, asked)
    told = f"{flag(name)} {CHANGED[name]} differs from the resumed run's {kept[name]}; leave the "
    assert str(caught.value).startswith(told)
    assert "(a resumed run may change --device, --steps, --data, --log-every, " in str(caught.value)


def test_what_may_change_is_told_by_flags_that_there_are() -> None:
    with pytest.raises(ConfigError) as caught:
        refuse_changes(_snapshot(), {**_snapshot(), "batch": 3})
    told = str(caught.value).partition("(a resumed run may change ")[2].rstrip(")").split(", ")
    assert len(told) == len(MAY_CHANGE) - 2 and "--no-graph" in told
    assert set(told) <= _build()._option_string_actions.keys()


@pytest.mark.parametrize(("steps", "told"), [(24, "stretches"), (6, "shortens")])
def test_another_length_is_told_by_what_it_does(steps: int, told: str) -> None:
    resume = filled_checkpoint(1)
    device = cast(Device, SimpleNamespace(spec=resume.config["device"]))
    (line,) = what_is_not_the_same(resume, micro_plan(steps=steps), device)
    assert line.startswith(f"resume: begun with --steps 12; {steps} {told} the learning-rate")


def test_all_changes_are_told_at_once() -> None:
    with pytest.raises(ConfigError, match=r"--batch 3 differs .* 8; --seed 4 differs .* 0; leave"):
        refuse_changes(_snapshot(), {**_snapshot(), "batch": 3, "seed": 4})


def _through_a_file(folder: Path, plan: Plan) -> Plan:
    written = filled_checkpoint(1, plan.shape, ema_decay=plan.schedule.ema_decay)
    config = snapshot(TrainConfig(), plan.values())
    cursor = replace(written.cursor, seed=plan.schedule.seed)
    checkpoint.write(folder, replace(written, plan=plan, config=config, cursor=cursor))
    return checkpoint.read(folder).plan


@pytest.mark.parametrize("name", [field.name for field in fields(Schedule)])
def test_every_field_of_the_schedule_comes_back(tmp_path: Path, name: str) -> None:
    plan = filled_checkpoint(1).plan
    value = getattr(plan.schedule, name)
    other: Any = "linear" if name == "schedule" else value * 2 + 1
    if isinstance(value, float):
        other = (value + 1) / 4  # most of them may not be above 1
    schedule = replace(plan.schedule, **{name: other})
    changed = replace(plan, schedule=schedule)
    assert _through_a_file(tmp_path, changed) == changed != plan


def test_every_field_of_the_plan_and_the_shape_comes_back(tmp_path: Path) -> None:
    plan = filled_checkpoint(1).plan
    shape = CharLMConfig(context=8, width=8, heads=1, layers=2, vocabulary=255)
    assert not asdict(shape).items() & asdict(plan.shape).items()
    changes: dict[str, Any] = {
        "model": "other", "preset": "other", "shape": shape, "log_every": 9, "precision": "bf16",
    }  # fmt: skip
    assert [field.name for field in fields(Plan) if field.name != "schedule"] == list(changes)
    changed = replace(plan, **changes)
    assert _through_a_file(tmp_path, changed) == changed
