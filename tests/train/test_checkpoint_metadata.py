"""Metadata made by hand, with a right sha256: each value of a wrong kind or range is one line."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from lowgraph.errors import ConfigError
from lowgraph.train import checkpoint, checkpoint_metadata
from lowgraph.train.checkpoint_format import _digest
from lowgraph.train.config import TrainConfig
from lowgraph.train.run import run
from tests.train.runs import filled_checkpoint


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return checkpoint.write(tmp_path, filled_checkpoint(5))


def _about(file: Path) -> dict[str, Any]:
    with safe_open(str(file), framework="numpy") as opened:
        about: dict[str, Any] = json.loads(opened.metadata()["lowgraph"])
    return about


def _put(file: Path, about: Any) -> None:
    """The same tensors with this metadata, signed as a writer would."""
    with safe_open(str(file), framework="numpy") as opened:
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    text = about if isinstance(about, str) else json.dumps(about)
    save_file(tensors, file, {"lowgraph": text, "sha256": _digest(text, tensors)})


def _refusal(file: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        checkpoint.read(file)
    message = str(caught.value)
    assert message.startswith(f"--resume {file}: not a lowgraph checkpoint, or damaged: ")
    assert "\n" not in message and len(message) < 600
    return message.partition("damaged: ")[2]


NO_RUN = "a setting in it is one that no run has: "


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        ("cursor/step", -1, "the cursor's step is -1, which is no count"),
        ("cursor/step", 2**63, f"the cursor's step is {2**63}, which is no count"),
        ("cursor/step", True, "the cursor's step is True, which is no int"),
        ("cursor/step", 5.0, "the cursor's step is 5.0, which is no int"),
        ("cursor/seed", 6, "the cursor has seed 6, the run 5"),
        ("cursor/data_bytes", "2000", "the cursor's data_bytes is '2000', which is no int"),
        ("cursor/data_sha256", "AB" * 32, "no sha256"),
        ("cursor/data_sha256", None, "the cursor's data_sha256 is None, which is no str"),
        ("cursor/masked_elements", -3, "the cursor's masked_elements is -3, which is no count"),
        ("cursor/masked_steps", 2, "0 masked elements in 2 of 5 steps, which cannot be"),
        ("cursor/position", 4, "its 'cursor' has 'position', which this version does not know"),
        ("cursor", [1], "its 'cursor' is no JSON object"),
        ("config", [1], "its 'config' is no JSON object"),
        ("fixed", None, "its 'fixed' is no JSON object"),
        ("fixed/batch", 9, "its 'fixed' has 'batch', which this version does not know"),
        ("fixed/beta1", 1.0, "beta1 is 1.0, not from 0 to below 1"),
        ("fixed/epsilon", 0, "epsilon is 0, no finite number above 0"),
        ("fixed/shape", 64, "shape is 64, which is none of a charlm"),
        ("fixed/shape/layers", "1", "shape's layers is '1', which is no int"),
        ("fixed/shape/layers", 10**12, "its model has 1000000000000 layers, it holds "),
        ("fixed/shape/heads", 0, "model: heads must be at least 1, got 0"),
        ("fixed/shape/depth", 2, "which is none of a charlm"),
        ("config/batch", 0, f"{NO_RUN}--batch must be at least 1, got 0"),
        ("config/batch", None, "batch is None, which is no int"),
        ("config/steps", 1, f"{NO_RUN}--warmup 2 is longer than the run of 1 steps"),
        ("config/accumulate", -1, f"{NO_RUN}--accumulate must be at least 1, got -1"),
        ("config/clip_norm", -1.0, f"{NO_RUN}--clip must be a finite number, 0 (off) or more"),
        ("config/ema_decay", 1.0, f"{NO_RUN}--ema must be from 0 (off) to below 1, got 1.0"),
        ("config/schedule", "steps", f"{NO_RUN}unknown --schedule 'steps'; there are cosine"),
        ("config/precision", "fp8", "'fp8' is not a valid Precision"),
        ("config/model", "gpt5", "unknown model 'gpt5'; there are charlm"),
        ("config/model", ["charlm"], "model is ['charlm'], which is no str"),
        ("config/device", "tpu", f"{NO_RUN}unknown device 'tpu'"),
        ("config/graph", "yes", "graph is 'yes', which is no bool"),
        ("config/data", 7, "data is 7, which is no str"),
        ("config/log_every", 0, f"{NO_RUN}--log-every must be at least 1, got 0"),
        ("config/checkpoint_every", -2, f"{NO_RUN}--checkpoint-every must be at least 0, got -2"),
        ("config/weights_out", "ema", f"{NO_RUN}--weights-out ema: the run keeps no average"),
        ("config/learning_rate", 10**400, "too large"),
        ("version", [3], None),
    ],
)  # fmt: skip
def test_a_value_that_no_writer_writes_is_refused(
    file: Path, where: str, value: Any, said: str | None
) -> None:
    about = _about(file)
    *path, last = where.split("/")
    inner = about
    for name in path:
        inner = inner[name]
    inner[last] = value
    _put(file, about)
    if said is None:  # nothing depends on it
        assert checkpoint.read(file).step == 5
    else:
        assert said in _refusal(file)


@pytest.mark.parametrize(("elements", "steps"), [(9, 6), (1, 2), (3, 0), (0, 1)])
def test_counts_that_cannot_be_together_are_refused(file: Path, elements: int, steps: int) -> None:
    about = _about(file)
    about["cursor"] |= {"masked_elements": elements, "masked_steps": steps}
    _put(file, about)
    told = f"the cursor has {elements} masked elements in {steps} of 5 steps, which cannot be"
    assert told in _refusal(file)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("cursor/step", "its 'cursor' lacks step"),
        ("fixed/beta2", "its 'fixed' lacks beta2"),
        ("fixed/shape", "its 'fixed' lacks shape"),
        ("config/batch", "whose settings differ from those of"),
        ("format", "format None, this version reads 3"),
        ("version", "its metadata lacks version"),
    ],
)
def test_what_is_missing_is_named(file: Path, where: str, said: str) -> None:
    about = _about(file)
    *path, last = where.split("/")
    inner = about
    for name in path:
        inner = inner[name]
    del inner[last]
    _put(file, about)
    assert said in _refusal(file)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_finite_number_is_refused(file: Path, word: str) -> None:
    text = json.dumps(_about(file)).replace('"learning_rate": 0.01', f'"learning_rate": {word}')
    _put(file, text)
    assert _refusal(file).startswith(f"its metadata holds {word}, which is no finite number")
    _put(file, text.replace(word, "1e999"))
    assert "--lr must be a finite number above 0, got inf" in _refusal(file)


ODD = [None, True, -1, 0, 1.5, 2**63, 10**400, "x", "x" * 9999, [], [1], {}, {"x": 1}]


def _places(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if path:
        yield path
    for name in value if isinstance(value, dict) else ():
        yield from _places(value[name], (*path, name))


def test_whatever_is_put_anywhere_is_one_line_or_a_whole_checkpoint(file: Path) -> None:
    """Each value of each object replaced by each odd one: no other exception gets out."""
    whole = _about(file)
    seen = {"refused": 0, "read": 0}
    for path in _places(whole):
        for odd in ODD:
            about = copy.deepcopy(whole)
            inner = about
            for name in path[:-1]:
                inner = inner[name]
            inner[path[-1]] = odd
            try:
                found = checkpoint_metadata.decode(checkpoint_metadata.load(json.dumps(about)))
            except (ValueError, ConfigError, OverflowError) as error:
                assert str(error) and "\n" not in str(error)
                seen["refused"] += 1
            else:
                assert found.plan.schedule.batch == 3 or path[-1] == "batch"
                seen["read"] += 1
    assert seen["refused"] > 400 and seen["read"] > 20, seen


def test_it_is_refused_before_the_device_is_opened(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_device(spec: str) -> None:
        raise AssertionError("the device was opened")

    monkeypatch.setattr("lowgraph.train.run.open_device", open_device)
    about = _about(file)
    about["config"]["accumulate"] = 0
    _put(file, about)
    with pytest.raises(ConfigError, match="--accumulate must be at least 1, got 0"):
        run(TrainConfig(resume=file), lambda text: None)


def test_a_schedule_without_a_final_share_comes_back(tmp_path: Path) -> None:
    """Its plan has one all the same, which the flags refuse beside `constant`."""
    written = filled_checkpoint(5)
    written.config["schedule"] = "constant"
    file = checkpoint.write(tmp_path, written)
    assert checkpoint.read(file).plan.schedule.schedule == "constant"


def test_a_file_from_before_an_addition_is_read(file: Path) -> None:
    """Without the counts, and without a setting that a resumed run may change."""
    about = _about(file)
    for name in ("masked_elements", "masked_steps"):
        del about["cursor"][name]
    for name in ("weights_out", "timers"):
        del about["config"][name]
    _put(file, about)
    found = checkpoint.read(file)
    assert (found.cursor.masked_elements, found.cursor.masked_steps) == (0, 0)
    assert (found.config["weights_out"], found.config["timers"]) == (None, False)
    assert np.array_equal(found.parameters["n.bias"], filled_checkpoint(5).parameters["n.bias"])
