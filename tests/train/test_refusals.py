"""What no run can be is refused before its device is opened, by every command that trains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.train import ab, checkpoint, run, verify
from lowgraph.train.atlas import run as atlas
from lowgraph.train.config import TrainConfig
from tests.train.runs import filled_checkpoint


@pytest.fixture(autouse=True)
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(spec: str) -> None:
        raise AssertionError(f"the device {spec} was opened")

    for module in (run, verify, ab, atlas):
        monkeypatch.setattr(module, "open_device", opened)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with data of all kinds, and checkpoints of a charlm and a mamba2."""
    (tmp_path / "words.txt").write_text("some words\n" * 500)
    table = np.zeros((600, 9))
    table[::2, 8] = 1
    np.save(tmp_path / "long.npy", table)
    np.save(tmp_path / "short.npy", table[:60])
    (tmp_path / "text.csv").write_text("a,label\n1,0\nx,1\n")
    checkpoint.write(tmp_path / "charlm", filled_checkpoint(1))
    checkpoint.write(tmp_path / "mamba2", filled_checkpoint(1, model="mamba2"))
    return tmp_path


BOTH: dict[str, tuple[dict[str, Any], str]] = {
    "a text for a series": ({"model": "mamba2", "data": "words.txt"}, "has another ending; a ser"),
    "a folder for a series": ({"model": "mamba2", "data": ""}, "is a folder; a series is a .csv"),
    "words in a series": ({"model": "mamba2", "data": "text.csv"}, "line 3, column 1 (a) is 'x'"),
    "a series for a text": ({"data": "long.npy"}, "is an NPY file, a series; give a text"),
    "nothing there": ({"model": "mamba2", "data": "none.csv"}, "no such file or folder"),
    "a short series of a preset": (
        {"model": "mamba2", "data": "short.npy", "preset": "nano"},
        "6 rows held out are shorter than one window (48 rows); give more rows, or a --preset of a "
        "shorter window if the model has one",
    ),
    "a short series of a device": (
        {"model": "mamba2", "data": "short.npy", "device": "host"}, "shorter than one window (48",
    ),
}  # fmt: skip


COMMANDS: dict[str, Callable[..., Any]] = {
    "run": run.run,
    "verify": verify.run,
    "ab": ab.run,
    "atlas": atlas.run,
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("name", BOTH)
def test_data_that_do_not_fit(files: Path, command: Callable[..., Any], name: str) -> None:
    flags, said = BOTH[name]
    _refused(command, files, flags, said)


RESUMED: dict[str, tuple[dict[str, Any], str]] = {
    "an export of a series": (
        {"data": "long.npy", "resume": "mamba2", "export": "out"},
        "--export: mamba2 has no counterpart in transformers",
    ),
    "another model": (
        {"model": "mamba2", "data": "words.txt", "resume": "charlm"},
        "--model mamba2 differs from the resumed run's charlm",
    ),
    "a sample of a series": (
        {"data": "long.npy", "resume": "mamba2", "sample": 3},
        "--sample 3: mamba2 is trained on series and writes no text",
    ),
    "fewer steps than are done": (
        {"data": "words.txt", "resume": "charlm", "steps": 1},
        "the checkpoint has 1 step done; --steps 1 leaves none: give more --steps",
    ),
    "other columns": ({"data": "long.npy", "resume": "mamba2"}, "8 features, the model takes 3"),
    "a text": ({"data": "words.txt", "resume": "mamba2"}, "has another ending; a series is"),
}  # fmt: skip


@pytest.mark.parametrize("name", RESUMED)
def test_a_resume_that_cannot_be(files: Path, name: str) -> None:
    flags, said = RESUMED[name]
    _refused(run.run, files, flags, said)


def test_a_resume_without_data_takes_those_of_its_run(files: Path) -> None:
    """Not the default ones; a path that is gone is named."""
    begun = filled_checkpoint(1)
    for name, said in (
        ("words.txt", f"give the same --data; the resumed run had {files / 'words.txt'}"),
        ("gone.txt", f"the resumed run had --data {files / 'gone.txt'}, which is not there; say"),
    ):
        kept = {**begun.config, "data": str(files / name)}
        checkpoint.write(files / "with data", replace(begun, config=kept))
        _refused(run.run, files, {"resume": "with data"}, said)
    _refused(run.run, files, {"resume": "charlm", "data": "words.txt"}, "and so the default data")


def _refused(command: Callable[..., Any], files: Path, flags: dict[str, Any], said: str) -> None:
    paths = {name: files / flags[name] for name in ("data", "resume", "export") if name in flags}
    with pytest.raises(ConfigError) as caught:
        command(TrainConfig(**{**flags, **paths}), lambda text: None)
    assert said in str(caught.value) and "\n" not in str(caught.value)
