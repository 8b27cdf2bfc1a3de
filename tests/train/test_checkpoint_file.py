"""The checkpoint file: what is written is read back, and what is damaged is refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save

from lowgraph.errors import ConfigError
from lowgraph.models.presets import CharLMConfig
from lowgraph.train import checkpoint
from tests.train.runs import SHAPE, filled_checkpoint

GROUPS = ("parameters", "moment1", "moment2")


def _refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        checkpoint.read(path)
    message = str(caught.value)
    assert message.startswith("--resume ") and "\n" not in message
    return message


def _metadata(file: Path) -> dict[str, str]:
    with safe_open(str(file), framework="numpy") as opened:
        return dict(opened.metadata())


def test_a_checkpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    written = filled_checkpoint(5)
    file = checkpoint.write(folder, written)
    for path in (folder, file):
        found = checkpoint.read(path)
        assert (found.plan, found.config, found.cursor) == (
            written.plan, written.config, written.cursor,
        )  # fmt: skip
        for group in GROUPS:
            theirs, ours = getattr(found, group), getattr(written, group)
            assert theirs.keys() == ours.keys()
            for name in ours:
                np.testing.assert_array_equal(theirs[name], ours[name])


def test_the_file_is_what_the_page_says(tmp_path: Path) -> None:
    """Readable by safetensors alone: docs/checkpoints.md."""
    file = checkpoint.write(tmp_path, filled_checkpoint(5))
    about = json.loads(_metadata(file)["lowgraph"])
    assert sorted(about) == ["config", "cursor", "fixed", "format", "version"]
    assert sorted(about["cursor"]) == [
        "data_bytes", "data_sha256", "masked_elements", "masked_steps", "seed", "step",
    ]  # fmt: skip
    assert about["fixed"]["beta1"] == 0.9 and about["config"]["learning_rate"] == 0.01
    with safe_open(str(file), framework="numpy") as opened:
        assert {name.split("/")[0] for name in opened.keys()} == set(GROUPS)  # noqa: SIM118
        assert opened.get_tensor("moment2/e.weight").shape == (256, SHAPE.width)


def test_files_have_one_size_whatever_the_settings(tmp_path: Path) -> None:
    """Steps and paths are longer or shorter, and a quote in the header takes two bytes."""
    written = filled_checkpoint(5)
    sizes = {checkpoint.write(tmp_path, written).stat().st_size}
    for path in ("p", '"' * 9, "long" * 99, "\u00e9"):
        config = {**written.config, "data": path}
        sizes.add(checkpoint.write(tmp_path, replace(written, config=config)).stat().st_size)
        assert checkpoint.read(tmp_path).config == config
    assert len(sizes) == 1


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    file = checkpoint.write(tmp_path, filled_checkpoint(5))
    whole = file.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    for length in (0, 1, 7, 8, 9, header // 2, header, header + 1, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:length])
        assert "not a lowgraph checkpoint, or damaged: " in _refusal(tmp_path), length


def test_bytes_behind_the_end_are_refused(tmp_path: Path) -> None:
    file = checkpoint.write(tmp_path, filled_checkpoint(5))
    file.write_bytes(file.read_bytes() + b"\0")
    assert "damaged: " in _refusal(tmp_path)


def test_a_flipped_bit_anywhere_is_refused(tmp_path: Path) -> None:
    """In the header the bit often leaves valid JSON: another digit, another name."""
    file = checkpoint.write(tmp_path, filled_checkpoint(5))
    whole = file.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    places = [*range(0, header, 19), header, len(whole) // 2, len(whole) - 1]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 7)  # bit 7 would leave UTF-8, which is too easy to see
        file.write_bytes(damaged)
        assert "damaged: " in _refusal(file), place


def test_a_number_changed_in_the_metadata_is_refused(tmp_path: Path) -> None:
    file = checkpoint.write(tmp_path, filled_checkpoint(5))
    whole = file.read_bytes()
    assert whole.count(b'\\"batch\\": 3') == 1
    file.write_bytes(whole.replace(b'\\"batch\\": 3', b'\\"batch\\": 2'))
    assert "does not have the sha256 in its metadata" in _refusal(file)


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (b"not a checkpoint at all", "not a lowgraph checkpoint, or damaged"),
        (save({"x": np.zeros(3, np.float32)}), "its metadata has no entry 'lowgraph'"),
        (save({"x": np.zeros(3, np.float32)}, {"lowgraph": "no JSON"}), "damaged: Expecting value"),
        (save({"x": np.zeros(3, np.float32)}, {"lowgraph": "[]"}),
         "its metadata's 'lowgraph' is no JSON object"),
        (save({"x": np.zeros(3, np.float32)}, {"lowgraph": "[" * 100_000}), "damaged: "),
        (save({"x": np.zeros(3, np.float32)}, {"lowgraph": '{"format": 1}'}),
         "format 1, this version reads 3"),
        (save({"x": np.zeros(3, np.float32)}, {"lowgraph": '{"format": 3, "config": []}'}),
         "its metadata lacks cursor, fixed, version"),
    ],
)  # fmt: skip
def test_something_else_is_refused(tmp_path: Path, image: bytes, said: str) -> None:
    (tmp_path / checkpoint.FILE_NAME).write_bytes(image)
    assert said in _refusal(tmp_path)


def test_nothing_there_is_refused(tmp_path: Path) -> None:
    assert f"there is no {checkpoint.FILE_NAME} in it" in _refusal(tmp_path)
    assert "no such file or folder" in _refusal(tmp_path / "none")


def _with_tensor(name: str, change: Callable[[Any], Any]) -> checkpoint.Checkpoint:
    written = filled_checkpoint(5)
    moment = {**written.moment1, name: change(written.moment1[name])}
    kept = {name: value for name, value in moment.items() if value is not None}
    return replace(written, moment1=cast("Any", kept))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda _: None, "moment1/n.bias is missing"),
        (lambda value: value[:-1].copy(), r"moment1/n.bias is (15,), the model has (16,)"),
        (lambda value: value.astype(np.float64), "moment1/n.bias holds F64, not F32"),
    ],
)
def test_a_tensor_that_is_not_the_models_is_refused(
    tmp_path: Path, change: Callable[[Any], Any], said: str
) -> None:
    checkpoint.write(tmp_path, _with_tensor("n.bias", change))
    assert said in _refusal(tmp_path)


@pytest.mark.parametrize("kind", ["BF16", "F8_E4M3", "F8_E5M2"])
def test_a_type_that_numpy_lacks_is_refused(tmp_path: Path, kind: str) -> None:
    file = checkpoint.write(tmp_path, filled_checkpoint(1))
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    begin, end = header["moment1/n.bias"]["data_offsets"]
    elements = (end - begin) // (2 if kind == "BF16" else 1)
    header["moment1/n.bias"] |= {"dtype": kind, "shape": [elements]}
    told = json.dumps(header).encode()
    file.write_bytes(len(told).to_bytes(8, "little") + told + content[8 + size :])
    assert _refusal(tmp_path).count(f"damaged: moment1/n.bias holds {kind}, not F32") == 1


def test_the_average_of_the_weights_comes_back(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, filled_checkpoint(5, ema_decay=0.5))
    found = checkpoint.read(tmp_path).ema
    assert found.keys() == filled_checkpoint(5).parameters.keys()
    assert all((value == 5.75).all() for value in found.values())
    checkpoint.write(tmp_path, filled_checkpoint(5))
    assert checkpoint.read(tmp_path).ema == {}


@pytest.mark.parametrize(
    ("ema", "said"),
    [
        ({}, "damaged: ema/e.weight is missing"),
        ({"n.bias": None}, "damaged: ema/n.bias is missing"),
        ({"n.bias": np.zeros(15, np.float32)}, "ema/n.bias is (15,), the model has (16,)"),
        ({"n.bias": np.zeros(16)}, "ema/n.bias holds F64, not F32"),
        ({"more": np.zeros(1, np.float32)}, "it holds 1 tensors more than micro has"),
    ],
)
def test_an_average_that_does_not_fit_is_refused(
    tmp_path: Path, ema: dict[str, Any], said: str
) -> None:
    whole = filled_checkpoint(5, ema_decay=0.5)
    values = {**whole.ema, **ema} if ema else {}
    kept = {name: value for name, value in values.items() if value is not None}
    checkpoint.write(tmp_path, replace(whole, ema=kept))
    assert said in _refusal(tmp_path)


def test_an_average_in_a_run_that_keeps_none_is_refused(tmp_path: Path) -> None:
    ema = filled_checkpoint(5, ema_decay=0.5).ema
    checkpoint.write(tmp_path, replace(filled_checkpoint(5), ema=ema))
    assert f"it holds {len(ema)} tensors more than micro has" in _refusal(tmp_path)


def test_the_tensors_of_another_model_are_refused(tmp_path: Path) -> None:
    larger = filled_checkpoint(5, CharLMConfig(context=16, width=16, heads=2, layers=2))
    checkpoint.write(tmp_path, replace(larger, plan=filled_checkpoint(5).plan))
    assert "more than micro has" in _refusal(tmp_path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"batch": "8"}, "batch is '8'"), ({"learning_rate": None}, "learning_rate is None"),
     ({"seed": 6}, "the cursor has seed 5, the run 6")],
)  # fmt: skip
def test_a_setting_of_the_wrong_kind_is_damage(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    written = filled_checkpoint(5)
    checkpoint.write(tmp_path, replace(written, config={**written.config, **changes}))
    assert f"damaged: {said}" in _refusal(tmp_path)


def test_settings_of_another_version_are_refused_by_name(tmp_path: Path) -> None:
    written = filled_checkpoint(5)
    config = {**written.config, "quantum": "tf32"}
    del config["batch"]
    checkpoint.write(tmp_path, replace(written, config=config))
    assert "settings differ from those of" in _refusal(tmp_path)
    assert "in batch, quantum" in _refusal(tmp_path)


def test_a_damaged_newest_names_the_one_before(tmp_path: Path) -> None:
    newest, previous = (
        tmp_path / name for name in (checkpoint.FILE_NAME, checkpoint.PREVIOUS_NAME)
    )
    for step in (4, 5):
        checkpoint.write(tmp_path, filled_checkpoint(step))
    newest.write_bytes(newest.read_bytes()[:-100])
    remedy = f"{previous} is whole, with 4 steps done: go on from it with --resume {previous}"
    assert _refusal(tmp_path).endswith(remedy)
    assert checkpoint.read(previous).step == 4
    previous.write_bytes(b"")
    assert _refusal(tmp_path).endswith("cannot be read either; begin again without --resume")
    previous.unlink()
    assert "there is no previous.safetensors beside it" in _refusal(tmp_path)
