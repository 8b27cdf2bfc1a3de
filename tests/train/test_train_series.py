"""examples/train_small.py with a series: what it says and writes, and what it learns."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph.train.config import TrainConfig
from lowgraph.train.default_series import read_default_series
from lowgraph.train.run import run
from lowgraph.train.series import Series
from lowgraph.train.series_files import read_series_file
from tests.train.runs import example

pytestmark = pytest.mark.both


@pytest.fixture
def spec(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--device"))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """600 rows of three features; the label says whether the first was higher two rows before."""
    x = np.random.default_rng(7).normal(size=(600, 3)).round(4)
    label = np.concatenate([[0, 0], x[:-2, 0] > 0]).astype(int)
    rows = [",".join(map(str, [*row, event])) for row, event in zip(x.tolist(), label, strict=True)]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["x,y,z,event", *rows]) + "\n")
    return path


def test_a_run_on_a_csv_file_says_and_writes_what_fits_a_series(
    spec: str, table: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    figures, folder = tmp_path / "f.json", tmp_path / "ckpt"
    common = ("--device", spec, "--preset", "nano", "--data", str(table))
    done = example(
        *common, "--model", "mamba2", "--steps", "6", "--json", str(figures),
        "--plot", str(tmp_path / "f.png"), "--checkpoint", str(folder), "--eval-every", "3",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for said in (
        f"data: {table} (label in column event): 600 rows of 3 features, 540 train + 60 held out",
        "\nmodel: features 3, as the data have; preset nano has 8\n",
        "parameters: features 3, width 32, context 48,",
        "\nloss in nats a label; a time step is a row\n", " time steps/s", "4 windows each",
        f" nats a label, best constant answer {read_series_file(table).baseline():.4f}",
        "captures 1",
    ):  # fmt: skip
        assert said in done.stdout, f"{said!r} is not in\n{done.stdout}"
    assert "tokens" not in done.stdout and "steps 50" not in done.stdout
    found = json.loads(figures.read_text())
    assert (found["model"], found["loss_unit"]) == ("mamba2", "nats a label")
    assert (found["baseline"], found["bigram_loss"]) == ("best constant answer", None)
    assert found["warm_step_us"] is None and found["step_us"] > 0
    again = example(*common, "--steps", "8", "--resume", str(folder))  # the model is the file's
    assert again.returncode == 0, again.stderr
    assert "steps 7 to 8" in again.stdout and "features 3, width 32" in again.stdout


def test_a_series_whose_past_tells_is_learnt(spec: str, table: Path) -> None:
    """The labels are coins to who sees one row: below the baseline is only who remembers two."""
    said: list[str] = []
    config = TrainConfig(
        device=spec, model="mamba2", preset="nano", data=table, steps=150, learning_rate=1e-2
    )
    result = run(config, said.append)
    assert (result.captures, result.replays) == (1, 149)
    assert (result.heldout_loss or 9.0) < 0.5 * result.baseline_loss
    assert "below the best constant answer's" in "\n".join(said)
    warm: Any = result.warm_step_us
    assert f"; of steps 50 and later: {warm / 1000:.3f} ms" in "\n".join(said)


def test_data_that_are_learnt_by_heart_are_told(spec: str, tmp_path: Path) -> None:
    """The held-out rows have the labels turned round: whoever learns the others is wrong on them.

    Of a run that has learnt nothing yet it is not said.
    """
    x = np.random.default_rng(7).normal(size=(600, 2))
    label = (x[:, 0] > 0) ^ (np.arange(600) >= 540)
    np.save(tmp_path / "turned.npy", np.column_stack([x, label]))
    told = "held-out loss is not below the best constant answer's, the training loss is: the data"
    for steps, rate, count in ((60, 1e-2, 1), (2, 1e-9, 0)):
        said: list[str] = []
        config = TrainConfig(
            device=spec, model="mamba2", preset="nano", data=tmp_path / "turned.npy", steps=steps,
            learning_rate=rate, heldout_batches=8,
        )  # fmt: skip
        result = run(config, said.append)
        assert (result.heldout_loss or 0.0) > result.baseline_loss
        assert len([line for line in said if line.startswith(told)]) == count


def test_a_model_that_cannot_see_the_past_does_not_pass_the_recordings_bar(
    spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Crippled by its data: the features of each row are another row's."""
    pytest.importorskip("matplotlib")

    def mixed() -> Series:
        series, generator = read_default_series(), np.random.default_rng(0)
        parts = [
            replace(part, features=generator.permutation(part.features))
            for part in (series.train, series.heldout)
        ]
        return replace(series, train=parts[0], heldout=parts[1])

    monkeypatch.setattr("lowgraph.train.datasets.read_default_series", mixed)
    config = TrainConfig(device=spec, model="mamba2", preset="nano", steps=60)
    result = run(config, lambda text: None)
    assert (result.heldout_loss or 0.0) > result.baseline_loss
    assert np.mean(result.losses[-10:]) < np.mean(result.losses[:10])  # it did learn the rate


def test_without_data_it_trains_on_the_recording(spec: str) -> None:
    pytest.importorskip("matplotlib")
    said: list[str] = []
    result = run(TrainConfig(device=spec, model="mamba2", preset="nano", steps=60), said.append)
    lines = "\n".join(said)
    assert "data: matplotlib's membrane.dat (a membrane's voltage and its latest changes; label: " \
        "the next value is higher): 11968 rows of 8 features" in lines  # fmt: skip
    assert "as the data have" not in lines
    assert (result.heldout_loss or 9.0) < result.baseline_loss - 0.03
