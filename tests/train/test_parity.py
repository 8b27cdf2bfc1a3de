"""tools/parity.py: a run of ours beside PyTorch's, and what it says when the two are not one."""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from lowgraph.driver import Device
from lowgraph.errors import ConfigError
from tests.support.settings import settings
from tests.train.runs import ROOT, micro_corpus

torch = pytest.importorskip("torch", reason="the oracle extra is not installed")

pytestmark = pytest.mark.both


@pytest.fixture
def parity(device: Device, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if device.kind == "cuda" and torch.version.cuda is None:
        pytest.skip("this PyTorch is built for the CPU: it has no run on the GPU to compare with")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # threads of a busy machine wait for each other
    spec = importlib.util.spec_from_file_location("parity", ROOT / "tools" / "parity.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def data_for(model: str, folder: Path) -> Path:
    """A small text; or a series whose label is the sign of a sum of its features."""
    if model != "mamba2":
        return Path(micro_corpus(folder).source)
    features = np.random.default_rng(0).standard_normal((2000, 8))
    label = features[:, :4].sum(axis=1) > 0
    np.save(folder / "series.npy", np.column_stack([features, label]).astype(np.float32))
    return folder / "series.npy"


def flags(device: Device, folder: Path, model: str = "charlm") -> argparse.Namespace:
    return argparse.Namespace(
        device=device.spec, model=model, preset="nano", steps=8, seed=3,
        data=data_for(model, folder), json=folder / "p.json", plot=None, window=3,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("model", "module"),
    settings(
        [
            ("charlm", "tests.models.rival_lm.LM"),
            ("mamba2", "tests.models.rival_mamba2.Perception"),
        ],
        [("mamba2-lm", "tests.models.rival_mamba2_lm.LM")],
    ),
)
def test_both_sides_lose_alike(
    parity: ModuleType, device: Device, tmp_path: Path, model: str, module: str
) -> None:
    """Nobody's numbers are the other's: the PyTorch runs come from a process of their own."""
    if model == "mamba2-lm":
        pytest.importorskip("transformers", reason="the oracle extra is not installed")
    found = parity.compare(flags(device, tmp_path, model))
    assert found["passed"]
    runs = [run["losses"] for run in (found["lowgraph"], found["torch"], *found["torch_nudged"])]
    assert [len(losses) for losses in runs] == [8] * 5
    assert runs[1][-1] < runs[1][0] - 0.01
    assert len({tuple(losses) for losses in runs}) == 5, "each nudge is another draw"
    assert 0 < found["first_50_max"] < 1e-5
    assert [(row["first_step"], row["last_step"]) for row in found["windows"]] == [
        (1, 3), (4, 6), (7, 8),
    ]  # fmt: skip
    worst = max(abs(a - b) / b for a, b in zip(runs[0], runs[1], strict=True))
    assert found["first_50_max"] == worst == max(row["max"] for row in found["windows"])
    assert found["torch"]["module"] == module


def test_the_farthest_nudged_run_of_a_window_is_its_yardstick(parity: ModuleType) -> None:
    torch_losses = [4.0] * 4
    nudged = [[4.0, 4.4, 4.0, 4.0], [4.0, 4.0, 4.0, 4.2], [4.0] * 4]
    for far, passed in [(6.0, [True, True]), (6.1, [True, False])]:
        rows = parity.windows(
            {
                "lowgraph": {"losses": [4.0, 7.9, 4.0, far]},
                "torch": {"losses": torch_losses},
                "torch_nudged": [{"losses": losses} for losses in nudged],
            },
            2,
        )
        assert [row["passed"] for row in rows] == passed
        assert rows[0]["yardsticks"] == pytest.approx([0.05, 0, 0])
        assert [row["yardstick_mean"] for row in rows] == pytest.approx([0.05, 0.025])
        assert [row["yardstick_max"] for row in rows] == pytest.approx([0.1, 0.05])


@pytest.mark.parametrize("key", settings(["betas"], ["rates", "weight_decay", "starts"]))
def test_another_setting_on_one_side_fails(
    parity: ModuleType, device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """A slip in the job, for PyTorch alone: every one of them shows within eight steps."""
    write = parity.write_job

    def slip(folder: Path, *given: Any) -> None:
        write(folder, *given)
        job = json.loads((folder / "job.json").read_text())
        job["betas"] = [0.9, 0.999] if key == "betas" else job["betas"]
        job["weight_decay"] += 0.01 if key == "weight_decay" else 0
        job["rates"] = [rate * (1.01 if key == "rates" else 1) for rate in job["rates"]]
        (folder / "job.json").write_text(json.dumps(job))
        if key == "starts":
            with np.load(folder / "data.npz") as data:
                arrays = dict(data)
            arrays["starts"][3, 0] += 1
            np.savez(folder / "data.npz", **arrays)

    monkeypatch.setattr(parity, "write_job", slip)
    assert not parity.compare(flags(device, tmp_path))["passed"]


def test_the_command_writes_the_file_and_the_picture(
    parity: ModuleType, device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    file, picture = tmp_path / "p.json", tmp_path / "p.png"
    text = micro_corpus(tmp_path).source
    command = ["parity", "--device", device.spec, "--preset", "nano", "--steps", "3"]
    command += ["--data", text, "--json", str(file), "--plot", str(picture)]
    monkeypatch.setattr(sys, "argv", command)
    assert parity.main() == 0
    assert json.loads(file.read_text())["passed"] is True
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--window", "0"), "--window must be at least 1, got 0"),
        (("--window", "-1"), "--window must be at least 1, got -1"),
        (("--plot", "p.odd"), "--plot p.odd: use a name that ends in "),
        (("--json", "missing/p.json"), "--json missing/p.json: "),
    ],
)
def test_what_would_fail_at_the_end_is_refused_before(
    parity: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...],
    message: str,
) -> None:  # fmt: skip
    """A window of no steps compared nothing, and passed."""
    pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    monkeypatch.setattr(parity, "open_device", None)
    monkeypatch.setattr(sys, "argv", ["parity", "--json", str(tmp_path / "p.json"), *words])
    with pytest.raises(ConfigError, match=re.escape(message)):
        parity.main()


def test_the_models_are_those_that_there_is_a_module_of(
    parity: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])
    assert set(importlib.import_module("parity_rival").MODULES) == set(parity.MODELS)


def test_nudged_weights_are_a_unit_away_at_most(parity: ModuleType) -> None:
    weights = {"a": np.linspace(-2, 2, 1001, dtype=np.float32)}
    moved = parity.nudged(weights, 1)["a"]
    assert moved.dtype == np.float32
    apart = np.abs(moved.view(np.int32).astype(np.int64) - weights["a"].view(np.int32))
    assert set(apart[weights["a"] != 0]) == {0, 1}


def test_a_lap_weighs_by_its_steps(parity: ModuleType) -> None:
    assert parity.mean_us([(10.0, 50), (40.0, 25)]) == 20.0
    assert parity.mean_us([]) is None
