"""examples/train_small.py with a series: what it says and writes, and what it learns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph.train.config import TrainConfig
from lowgraph.train.run import run
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
        f" nats a label, train label rate {read_series_file(table).baseline():.4f}", "captures 1",
    ):  # fmt: skip
        assert said in done.stdout, f"{said!r} is not in\n{done.stdout}"
    assert "tokens" not in done.stdout and "steps 50" not in done.stdout
    found = json.loads(figures.read_text())
    assert (found["model"], found["loss_unit"]) == ("mamba2", "nats a label")
    assert (found["baseline"], found["bigram_loss"]) == ("train label rate", None)
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
    assert "below the train label rate's" in "\n".join(said)
    warm: Any = result.warm_step_us
    assert f"; of steps 50 and later: {warm / 1000:.3f} ms" in "\n".join(said)


def test_without_data_it_trains_on_the_recording(spec: str) -> None:
    pytest.importorskip("matplotlib")
    said: list[str] = []
    result = run(TrainConfig(device=spec, model="mamba2", preset="nano", steps=60), said.append)
    lines = "\n".join(said)
    assert "data: matplotlib's membrane.dat (a membrane's voltage and its latest changes; label: " \
        "the next value is higher): 11968 rows of 8 features" in lines  # fmt: skip
    assert "as the data have" not in lines
    assert (result.heldout_loss or 9.0) < result.baseline_loss
