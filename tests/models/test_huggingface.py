"""Weights from and to Hugging Face folders: transformers reads ours, we read its, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from lowgraph.errors import ConfigError
from lowgraph.memory import download
from lowgraph.models import CharLM, huggingface
from lowgraph.models import huggingface_files as folders
from lowgraph.models.mamba2_lm import Mamba2LM
from tests.models.bench import Bench
from tests.models.cases import batch_of
from tests.models.hf_folders import GPT2, MAMBA2, SHAPES, change_config, saved, weights_of
from tests.support.rig import Rig

torch = pytest.importorskip("torch", reason="the oracle extra is not installed")
transformers = pytest.importorskip("transformers", reason="the oracle extra is not installed")

from tests.models import gpt2_lm  # noqa: E402

CLASSES = {"charlm": CharLM, "mamba2-lm": Mamba2LM}


def by_transformers(folder: Path, model: str = "charlm", **changes: Any) -> Path:
    """A folder that save_pretrained wrote, with weights of transformers' own."""
    if model == "charlm":
        made = gpt2_lm.fresh(GPT2, **changes)
    else:
        settings = {
            "vocab_size": 61, "hidden_size": 24, "num_hidden_layers": 2, "state_size": 8,
            "num_heads": 3, "head_dim": 16, "n_groups": 1, "chunk_size": 16, **changes,
        }  # fmt: skip
        made = transformers.Mamba2ForCausalLM(transformers.Mamba2Config(**settings))
    made.save_pretrained(folder)
    return folder


def reloaded(folder: Path) -> Any:
    """The model that transformers makes of a folder; nothing may be missing or left over."""
    model, about = transformers.AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True, attn_implementation="eager"
    )
    assert not any(about[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model.eval()


# ---- both ways ----


@pytest.mark.parametrize("model", SHAPES)
def test_what_we_write_comes_back_bit_for_bit(tmp_path: Path, model: str) -> None:
    weights = weights_of(model)
    loaded = huggingface.load(saved(tmp_path / "a", model), model, SHAPES[model])
    assert loaded.notes == []
    assert list(loaded.parameters) == list(weights)
    for name, value in weights.items():
        np.testing.assert_array_equal(loaded.parameters[name], value, err_msg=name, strict=True)


@pytest.mark.parametrize("model", SHAPES)
def test_through_transformers_and_back_bit_for_bit(tmp_path: Path, model: str) -> None:
    reloaded(saved(tmp_path / "a", model)).save_pretrained(tmp_path / "b")
    loaded = huggingface.load(tmp_path / "b", model, SHAPES[model])
    for name, value in weights_of(model).items():
        np.testing.assert_array_equal(loaded.parameters[name], value, err_msg=name, strict=True)


@pytest.mark.parametrize("model", SHAPES)
def test_what_transformers_writes_goes_through_us(tmp_path: Path, model: str) -> None:
    """Every tensor of its file comes out of ours as it was, and there is no other."""
    theirs = by_transformers(tmp_path / "a", model)
    loaded = huggingface.load(theirs, model, SHAPES[model])
    huggingface.save(tmp_path / "b", model, SHAPES[model], loaded.parameters)
    before = load_file(theirs / folders.WEIGHTS_NAME)
    after = load_file(tmp_path / "b" / folders.WEIGHTS_NAME)
    assert before.keys() == after.keys()
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value, err_msg=name, strict=True)


@pytest.mark.both
@pytest.mark.parametrize("model", SHAPES)
@pytest.mark.parametrize("foreign", [False, True], ids=["ours", "theirs"])
def test_logits_are_those_of_transformers(
    rig: Rig, tmp_path: Path, foreign: bool, model: str
) -> None:
    """1e-5 of the largest logit: float32 sums in another order, over 24 channels and two blocks."""
    make = by_transformers if foreign else saved
    folder, shape = make(tmp_path / "a", model), SHAPES[model]
    bench = Bench(rig, shape, huggingface.load(folder, model, shape).parameters, CLASSES[model])
    tokens, _ = batch_of(GPT2, 3, seed=4)
    with bench.pool.eager_pass("logits"):
        trace = bench.model.forward(rig.stream, bench.put("tokens", tokens))
        ours = download(trace.logits, rig.stream).reshape(3, GPT2.context, GPT2.vocabulary)
    bench.close()
    theirs = gpt2_lm.logits(reloaded(folder), tokens)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * float(np.abs(theirs).max()))


# ---- what a checkpoint may be ----


def test_a_tied_head_is_loaded_into_both_and_said(tmp_path: Path) -> None:
    folder = by_transformers(tmp_path / "a", tie_word_embeddings=True)
    assert "lm_head.weight" not in load_file(folder / folders.WEIGHTS_NAME)
    loaded = huggingface.load(folder, "charlm", GPT2)
    np.testing.assert_array_equal(loaded.parameters["hd.weight"], loaded.parameters["e.weight"])
    assert not np.shares_memory(loaded.parameters["hd.weight"], loaded.parameters["e.weight"])
    (note,) = loaded.notes
    assert "wte.weight is loaded into both" in note
    change_config(folder, tie_word_embeddings=None)  # transformers 4 leaves out what is default
    assert huggingface.load(folder, "charlm", GPT2).notes == [note]


def test_a_tied_head_that_differs_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path / "a")
    change_config(folder, tie_word_embeddings=True)
    with pytest.raises(ConfigError, match=r"but they differ; set tie_word_embeddings to false"):
        huggingface.load(folder, "charlm", GPT2)


def test_dropout_is_said(tmp_path: Path) -> None:
    folder = by_transformers(tmp_path / "a", attn_pdrop=0.1)
    (note,) = huggingface.load(folder, "charlm", GPT2).notes
    assert note == "config.json asks for dropout (attn_pdrop 0.1); charlm trains without"


def test_names_without_prefix_and_masks_of_old_files(tmp_path: Path) -> None:
    """As the first files of GPT-2 have them."""
    folder = saved(tmp_path / "a")
    tensors = load_file(folder / folders.WEIGHTS_NAME)
    old = {name.removeprefix("transformer."): value for name, value in tensors.items()}
    old["h.0.attn.bias"] = np.ones((1, 1, 33, 33), np.float32)
    save_file(old, folder / folders.WEIGHTS_NAME)
    loaded = huggingface.load(folder, "charlm", GPT2)
    for name, value in weights_of("charlm").items():
        np.testing.assert_array_equal(loaded.parameters[name], value, err_msg=name)


@pytest.mark.parametrize(("kind", "label"), [("float16", "F16"), ("bfloat16", "BF16")])
def test_narrow_floats_are_widened_and_said(tmp_path: Path, kind: str, label: str) -> None:
    model = gpt2_lm.fresh(GPT2).to(getattr(torch, kind))
    model.save_pretrained(tmp_path / "a")
    loaded = huggingface.load(tmp_path / "a", "charlm", GPT2)
    assert loaded.notes == [f"model.safetensors holds {label}; widened to float32"]
    wide = model.transformer.h[1].mlp.c_fc.weight.detach().float().numpy().T
    np.testing.assert_array_equal(loaded.parameters["b.1.f1.weight"], wide)


@pytest.mark.parametrize("limit", [[0.0, float("inf")], [0.0, {"__float__": "Infinity"}]])
def test_no_limit_of_step_sizes_is_read_as_either_version_writes_it(
    tmp_path: Path, limit: list[Any]
) -> None:
    folder = saved(tmp_path / "a", "mamba2-lm")
    change_config(folder, time_step_limit=limit)
    huggingface.load(folder, "mamba2-lm", MAMBA2)
