"""The checkpoint file: what is written is read back, and what is damaged is refused in one line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.models.parameters import initial_values
from lowgraph.models.presets import CharLMConfig
from lowgraph.train import checkpoint
from lowgraph.train.plan import Plan, Schedule

MODEL = CharLMConfig(context=4, width=8, heads=2, layers=1, vocabulary=8)


def _example() -> checkpoint.Checkpoint:
    schedule = Schedule(steps=9, warmup=1, learning_rate=0.1, batch=2, seed=3)
    plan = Plan("nano", MODEL, schedule, log_every=1)
    first, second, third = (initial_values(MODEL, seed) for seed in range(3))
    return checkpoint.Checkpoint(plan, 5, "ab", first, second, third)


def test_a_checkpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    written = _example()
    checkpoint.write(folder, written)
    found = checkpoint.read(folder)
    assert (found.plan, found.step) == (written.plan, written.step)
    assert found.data_sha256 == written.data_sha256
    for group in ("parameters", "moment1", "moment2"):
        theirs, ours = getattr(found, group), getattr(written, group)
        assert theirs.keys() == ours.keys()
        for name in ours:
            np.testing.assert_array_equal(theirs[name], ours[name])


def test_writing_again_leaves_one_file(tmp_path: Path) -> None:
    for _ in range(2):
        checkpoint.write(tmp_path, _example())
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint.FILE_NAME]


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = checkpoint.write(tmp_path, _example())
    before = file.read_bytes()

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lowgraph.train.files.os.fsync", full)
    with pytest.raises(ConfigError, match="No space left on device"):
        checkpoint.write(tmp_path, _example())
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint.FILE_NAME]


@pytest.mark.parametrize("damage", ["missing", "cut", "text", "foreign"])
def test_a_damaged_checkpoint_is_refused_in_one_line(tmp_path: Path, damage: str) -> None:
    file = checkpoint.write(tmp_path, _example())
    if damage == "missing":
        file.unlink()
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:-100])
    elif damage == "text":
        file.write_bytes(b"not a checkpoint at all")
    else:
        from safetensors.numpy import save

        file.write_bytes(save({"x": np.zeros(3, np.float32)}))
    with pytest.raises(ConfigError, match="--resume") as caught:
        checkpoint.read(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"batch": "8"}, "batch is '8'"), ({"learning_rate": None}, "learning_rate is None")],
)
def test_a_setting_of_the_wrong_kind_is_damage(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    written = _example()
    plan = replace(written.plan, schedule=replace(written.plan.schedule, **changes))
    checkpoint.write(tmp_path, replace(written, plan=plan))
    with pytest.raises(ConfigError, match=f"damaged: {said}"):
        checkpoint.read(tmp_path)


def test_tensors_of_another_type_are_damage(tmp_path: Path) -> None:
    written = _example()
    doubled = {name: value.astype(np.float64) for name, value in written.moment1.items()}
    checkpoint.write(tmp_path, replace(written, moment1=cast("Any", doubled)))
    with pytest.raises(ConfigError, match=r"moment1/.* holds float64, not float32"):
        checkpoint.read(tmp_path)
