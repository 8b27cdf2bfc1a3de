"""What is no checkpoint of ours is refused in one line; what we write is whole or not there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load_file, save_file

from lowgraph.errors import ConfigError
from lowgraph.models import huggingface
from lowgraph.models import huggingface_files as folders
from tests.models.hf_folders import GPT2, SHAPES, change_config, saved, weights_of

Array = npt.NDArray[Any]
Damage = Callable[[Path], None]


def _setting(**changes: Any) -> Damage:
    return lambda folder: change_config(folder, **changes)


def _tensors(change: Callable[[dict[str, Array]], Any]) -> Damage:
    def work(folder: Path) -> None:
        tensors = load_file(folder / folders.WEIGHTS_NAME)
        change(tensors)
        save_file(tensors, folder / folders.WEIGHTS_NAME)

    return work


def _renamed(to: str, name: str = folders.WEIGHTS_NAME) -> Damage:
    return lambda folder: os.rename(folder / name, folder / to)


def _text(name: str, text: str) -> Damage:
    return lambda folder: (folder / name).write_text(text, encoding="latin-1") and None


def _cut(folder: Path) -> None:
    file = folder / folders.WEIGHTS_NAME
    file.write_bytes(file.read_bytes()[:-100])


WTE = "transformer.wte.weight"
# The damage, and what the message says of it and of what to do next.
REFUSED: dict[str, tuple[str, Damage, str]] = {
    "no-folder": ("charlm", shutil.rmtree, "no such folder; give the one that save_pretrained"),
    "no-config": ("charlm", _renamed("c", folders.CONFIG_NAME), r"no config\.json in it.*give the"),
    "no-json": ("charlm", _text(folders.CONFIG_NAME, "{"), "not JSON: .*copy the checkpoint again"),
    "no-text": ("charlm", _text(folders.CONFIG_NAME, "\xff"), "not JSON: .*copy the checkpoint"),
    "no-end": ("charlm", _text(folders.CONFIG_NAME, "[" * 100_000), "not JSON: .*copy the check"),
    "no-object": ("charlm", _text(folders.CONFIG_NAME, "[]"), "not a JSON object; copy"),
    "no-weights": ("charlm", _renamed("w"), r"no model\.safetensors in it; give the folder that"),
    "sharded": ("charlm", _renamed("model.safetensors.index.json"), "sharded.*max_shard_size"),
    "pickle": ("charlm", _renamed("pytorch_model.bin"), r"pickle.*save_pretrained\(DIR\)"),
    "pickles": ("charlm", _renamed("pytorch_model.bin.index.json"), "sharded pickles.*max_shard"),
    "cut-off": ("charlm", _cut, "damaged, or no safetensors file: .*copy the checkpoint again"),
    "other-file": ("charlm", _text(folders.WEIGHTS_NAME, "hello"), "damaged, or no safetensors"),
    "other-model": ("charlm", _setting(model_type="llama"), "'llama'; charlm loads 'gpt2' only"),
    "no-model-type": ("charlm", _setting(model_type=None), "model_type is None; charlm loads 'gp"),
    "activation": ("charlm", _setting(activation_function="relu"), "'relu', charlm has the tanh.*"
                   "choose a checkpoint with activation_function 'gelu_new' or"),
    "epsilon": ("charlm", _setting(layer_norm_epsilon=1e-6), "with layer_norm_epsilon 1e-05"),
    "no-scale": ("charlm", _setting(scale_attn_weights=False), "with scale_attn_weights True"),
    "layer-scale": ("charlm", _setting(scale_attn_by_inverse_layer_idx=True), "idx False"),
    "cross": ("charlm", _setting(add_cross_attention=True), "with add_cross_attention False"),
    "heads": ("charlm", _setting(n_head=3), "not the shape of this charlm: n_head is 3, not 2; ch"),
    "layers": ("charlm", _setting(n_layer=None), "n_layer is 12, not 2; choose the size"),
    "nan": ("charlm", _tensors(lambda t: t[WTE].__setitem__((5, 3), np.nan)),
            f"{WTE}: numbers that are not finite.*choose another checkpoint"),
    "inf": ("charlm", _tensors(lambda t: t[WTE].__setitem__((0, 0), -np.inf)),
            f"{WTE}: numbers that are not finite.*choose another checkpoint"),
    "missing": ("charlm", _tensors(lambda t: t.pop(WTE)), f"missing {WTE}, unknown none; save"),
    "unknown": ("charlm", _tensors(lambda t: t.update(score=t[WTE])), "none, unknown score"),
    "shape": ("charlm", _tensors(lambda t: t.update({WTE: t[WTE].T.copy()})),
              r"wte\.weight is \(24, 61\), not \(61, 24\); choose the size"),
    "dtype": ("charlm", _tensors(lambda t: t.update({WTE: t[WTE].astype(np.float64)})),
              r"wte\.weight holds F64; save the model as float32 first"),
    "groups": ("mamba2-lm", _setting(n_groups=2), "n_groups is 2, all heads.*with n_groups 1"),
    "eight-groups": ("mamba2-lm", _setting(n_groups=None), "n_groups is 8"),
    "tied-mamba2": ("mamba2-lm", _setting(tie_word_embeddings=True), "a head of its own; load it"),
    "bias": ("mamba2-lm", _setting(use_bias=True), "have no bias; choose a checkpoint with use_b"),
    "no-conv-bias": ("mamba2-lm", _setting(use_conv_bias=False), "with use_conv_bias True"),
    "gelu": ("mamba2-lm", _setting(hidden_act="gelu"), "hidden_act is 'gelu', mamba2-lm has SiLU"),
    "clamped": ("mamba2-lm", _setting(time_step_limit=[0.0, 0.1]), r"limit is \(0.0, 0.1"),
    "state": ("mamba2-lm", _setting(state_size=16), "state_size is 16, not 8"),
    "gpt2-as-mamba2": ("mamba2-lm", _setting(model_type="gpt2"), "mamba2-lm loads 'mamba2' only"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_in_one_line_that_says_what_to_do(tmp_path: Path, case: str) -> None:
    model, damage, message = REFUSED[case]
    folder = saved(tmp_path / "a", model)
    huggingface.load(folder, model, SHAPES[model])
    damage(folder)
    with pytest.raises(ConfigError, match=message) as caught:
        huggingface.load(folder, model, SHAPES[model])
    assert len(str(caught.value).splitlines()) == 1
    assert str(folder) in str(caught.value)


def test_a_model_without_a_counterpart(tmp_path: Path) -> None:
    match = "mamba2 has no counterpart in transformers.*; charlm and mamba2-lm have one"
    with pytest.raises(ConfigError, match=match):
        huggingface.save(tmp_path / "a", "mamba2", None, {})
    with pytest.raises(ConfigError, match=match):
        huggingface.load(tmp_path / "a", "mamba2", None)


# ---- written whole or not at all ----


def test_a_place_that_is_taken_is_refused_and_left_alone(tmp_path: Path) -> None:
    taken = tmp_path / "a"
    taken.mkdir()
    (taken / "config.json").write_text("mine")
    with pytest.raises(ConfigError, match="not empty; give one that is not there yet"):
        saved(taken)
    assert (taken / "config.json").read_text() == "mine"
    with pytest.raises(ConfigError, match="a file is there; give a folder that is not there"):
        saved(taken / "config.json")
    with pytest.raises(ConfigError, match="is not there; make it, or give another path"):
        saved(tmp_path / "b" / "c")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_empty_folder_and_a_link_to_one_are_filled(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    saved(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert sorted(os.listdir(tmp_path / "real")) == [folders.CONFIG_NAME, folders.WEIGHTS_NAME]


@pytest.mark.parametrize("failing", ["fsync", "rename"])
def test_nothing_is_left_when_the_disk_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def refuse(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, refuse)
    with pytest.raises(ConfigError, match=r"a: No space left on device"):
        saved(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_what_killed_writers_left_is_removed(tmp_path: Path) -> None:
    """But not what a living one is writing, nor a folder with anything else in it."""
    left, living, foreign = (tmp_path / f".a.{number * 8}" for number in "123")
    for folder in (left, living, foreign):
        folder.mkdir()
        (folder / folders.WEIGHTS_NAME).write_bytes(b"half")
    (foreign / "notes.txt").write_text("mine")
    with folders._locked(living):
        saved(tmp_path / "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a.22222222", ".a.33333333", "a"]


def test_wrong_parameters_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    weights = weights_of("charlm")
    lacking = {name: value for name, value in weights.items() if name != "n.bias"}
    with pytest.raises(ConfigError, match=r"not the parameters of this charlm: n\.bias differ"):
        huggingface.save(tmp_path / "a", "charlm", GPT2, lacking)
    wrong = {**weights, "n.bias": np.zeros(3, np.float32)}
    with pytest.raises(ConfigError, match=r"n\.bias is float32 \(3,\), not float32 \(24,\)"):
        huggingface.save(tmp_path / "a", "charlm", GPT2, wrong)
    assert list(tmp_path.iterdir()) == []
