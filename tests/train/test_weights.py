"""`--weights`, `--export` and `python -m lowgraph export`: weights in and out of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph.cli import main
from lowgraph.driver import Device
from lowgraph.errors import ConfigError
from lowgraph.models import huggingface
from lowgraph.models.mamba2_parameters import initial_values
from lowgraph.models.parameters import parameter_specs
from lowgraph.models.registry import find_preset
from lowgraph.train import checkpoint
from lowgraph.train.config import TrainConfig
from lowgraph.train.loop import Trainer
from lowgraph.train.run import run
from tests.train.runs import filled_checkpoint, micro_corpus, micro_plan

NANO = find_preset("charlm", "nano").model
FILES = ("config.json", "model.safetensors")
Train = Callable[..., list[str]]


@pytest.fixture
def train(device: Device, tmp_path: Path) -> Train:
    """Run three steps of nano with these flags; returns the lines said."""
    source = Path(micro_corpus(tmp_path).source)

    def work(**flags: Any) -> list[str]:
        said: list[str] = []
        given = {"preset": "nano", "steps": 3, "batch": 1, "heldout_batches": 1, **flags}
        run(TrainConfig(device=device.spec, data=source, **given), said.append)
        return said

    return work


@pytest.mark.both
def test_a_run_exports_what_its_checkpoint_holds(
    train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the command makes the same files of the checkpoint."""
    first, second, kept = (tmp_path / name for name in ("first", "second", "kept"))
    said = train(checkpoint=kept, export=first)
    assert f"weights: written to {first}" in said
    loaded = huggingface.load(first, "charlm", NANO)
    for name, value in checkpoint.read(kept).parameters.items():
        np.testing.assert_array_equal(loaded.parameters[name], value, err_msg=name)
    assert main(["export", str(kept), str(second)]) == 0
    assert f"charlm nano, 3 steps done: written to {second}" in capsys.readouterr().out
    for name in FILES:
        assert (first / name).read_bytes() == (second / name).read_bytes()


@pytest.mark.both
def test_a_run_that_averages_exports_the_average_bit_for_bit(
    train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checkpoint keeps both; flag and command take the plain weights where these are asked for,
    and the command without a flag what the run took.
    """
    flags = {"ema_decay": 0.9, "learning_rate": 0.05, "warmup": 0}
    for which, asked in (("ema", {}), ("plain", {"weights_out": "plain"})):
        first, kept = tmp_path / which, tmp_path / f"{which} kept"
        train(checkpoint=kept, export=first, **flags, **asked)
        found = checkpoint.read(kept)
        of = {"plain": found.parameters, "ema": found.ema}
        assert any((of["plain"][name] != of["ema"][name]).any() for name in found.ema)
        loaded = huggingface.load(first, "charlm", NANO).parameters
        for name, value in of[which].items():
            np.testing.assert_array_equal(loaded[name], value, err_msg=name)
        said = {"plain": "(plain weights)", "ema": "(average of the weights)"}
        for flag in ((), ("--weights-out", "plain"), ("--weights-out", "ema")):
            taken = flag[1] if flag else which
            made = tmp_path / f"{which} made {taken} {len(flag)}"
            assert main(["export", str(kept), str(made), *flag]) == 0
            assert capsys.readouterr().out.endswith(f"{made} {said[taken]}\n")
            loaded = huggingface.load(made, "charlm", NANO).parameters
            for name, value in of[taken].items():
                np.testing.assert_array_equal(loaded[name], value, err_msg=name)


@pytest.mark.both
def test_a_run_begins_with_the_weights_it_is_given(
    device: Device, train: Train, tmp_path: Path
) -> None:
    """Bit for bit, with no step done and no moments."""
    train(export=tmp_path / "a", learning_rate=0.05, warmup=0)
    said = train(weights=tmp_path / "a")
    assert f"weights: from {tmp_path / 'a'}" in said
    loaded = huggingface.load(tmp_path / "a", "charlm", NANO).parameters
    plan, corpus = micro_plan(), micro_corpus(tmp_path)
    mine = _micro_weights(plan)
    with Trainer(device, TrainConfig(), plan, corpus, weights=mine) as trainer:
        begun = trainer.checkpoint()
    assert begun.step == 0
    for name, value in mine.items():
        np.testing.assert_array_equal(begun.parameters[name], value, err_msg=name)
        assert not begun.moment1[name].any()
    # A learning rate too small to move a float32: what comes out is what went in.
    train(weights=tmp_path / "a", export=tmp_path / "b", learning_rate=1e-30, weight_decay=0.0)
    after = huggingface.load(tmp_path / "b", "charlm", NANO).parameters
    for name, value in loaded.items():
        np.testing.assert_array_equal(after[name], value, err_msg=name)


def _micro_weights(plan: Any) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    return {
        spec.name: generator.standard_normal(spec.shape).astype(np.float32)
        for spec in parameter_specs(plan.shape)
    }


@pytest.mark.both
def test_what_a_checkpoint_of_another_shape_or_model_is_told(train: Train, tmp_path: Path) -> None:
    tiny = find_preset("mamba2-lm", "nano").model
    huggingface.save(tmp_path / "a", "mamba2-lm", tiny, initial_values(tiny, 0))
    with pytest.raises(ConfigError, match=r"^--weights .*'mamba2'; charlm loads 'gpt2' only"):
        train(weights=tmp_path / "a")
    with pytest.raises(ConfigError, match=r"^--weights .*no such folder"):
        train(weights=tmp_path / "nowhere")


def test_what_no_run_can_have(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--resume goes on with one that has weights; give one"):
        TrainConfig(weights=tmp_path, resume=tmp_path)
    with pytest.raises(ConfigError, match=r"^--export .*not empty; give one that is not there"):
        (tmp_path / "file").write_text("")
        TrainConfig(export=tmp_path)
    with pytest.raises(ConfigError, match="is the path of --json, or a folder above it; give one"):
        TrainConfig(export=tmp_path / "a", json=tmp_path / "a")
    # A log is made before the first step, and would be in the way of the folder at the end.
    for label in ("log", "checkpoint"):
        for path in (tmp_path / "a", tmp_path / "a" / "b"):
            with pytest.raises(ConfigError, match=rf"is the path of --{label}, or a folder above"):
                TrainConfig(export=tmp_path / "a", **{label: path})


def test_the_command_refuses_before_it_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It does not speak of a flag that it does not have."""
    assert main(["export", str(tmp_path / "nothing"), str(tmp_path / "a")]) == 2
    said = capsys.readouterr().err
    assert said == f"error: {tmp_path / 'nothing'}: no such file or folder\n"
    (tmp_path / "empty").mkdir()
    assert main(["export", str(tmp_path / "empty"), str(tmp_path / "a")]) == 2
    assert "empty: there is no checkpoint.safetensors in it" in capsys.readouterr().err
    (tmp_path / "checkpoint.safetensors").write_bytes(b"no checkpoint")
    assert main(["export", str(tmp_path), str(tmp_path)]) == 2
    assert "the folder is not empty" in capsys.readouterr().err
    assert main(["export", str(tmp_path), str(tmp_path / "a")]) == 2
    said = capsys.readouterr().err
    assert "not a lowgraph checkpoint, or damaged" in said and "--resume" not in said
    assert said.endswith("there is no previous.safetensors beside it; name another checkpoint\n")
    checkpoint.write(tmp_path / "kept", filled_checkpoint(3))
    ema = ["--weights-out", "ema"]
    assert main(["export", str(tmp_path / "kept"), str(tmp_path / "a"), *ema]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: --weights-out ema: the run keeps no average of the weights; ")
    (tmp_path / "kept" / "checkpoint.safetensors").rename(tmp_path / "previous.safetensors")
    assert main(["export", str(tmp_path), str(tmp_path / "a")]) == 2
    said = capsys.readouterr().err
    assert said.endswith(f"3 steps done: name {tmp_path / 'previous.safetensors'}\n")
    assert not (tmp_path / "a").exists()
