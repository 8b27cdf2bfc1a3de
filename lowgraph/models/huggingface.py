"""Weights from and to Hugging Face folders: config.json and model.safetensors.

    loaded = huggingface.load(Path("gpt2-bytes"), "charlm", shape)
    model.load_state(loaded.parameters, stream)
    ...
    huggingface.save(Path("out"), "charlm", shape, model.state(stream))

`charlm` is transformers' GPT2LMHeadModel with a head of its own, `mamba2-lm` its
Mamba2ForCausalLM with one group. transformers itself is not needed. Optimizer state is not in such
a folder: a run that begins from one begins with zero moments. See docs/weights.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save as encode

from lowgraph.errors import ConfigError
from lowgraph.models.huggingface_family import Entry, Family
from lowgraph.models.huggingface_files import (
    CONFIG_NAME,
    WEIGHTS_NAME,
    check_target,
    read_config,
    read_tensors,
    write_folder,
)
from lowgraph.models.huggingface_gpt2 import GPT2
from lowgraph.models.huggingface_mamba2 import MAMBA2

__all__ = ["FAMILIES", "Loaded", "check_model", "check_target", "load", "save"]

FAMILIES = {family.model: family for family in (GPT2, MAMBA2)}
"""What has a counterpart in transformers, by our name of it."""

_LISTED = 5  # names in one error
Parameters = dict[str, npt.NDArray[np.float32]]


@dataclass(frozen=True)
class Loaded:
    """Parameters by our names, float32, and lines that people should read about them."""

    parameters: Parameters
    notes: list[str]


def check_model(model: str) -> None:
    """Raise ConfigError for a model that has no counterpart in transformers."""
    _family(model)


def load(folder: Path, model: str, shape: Any) -> Loaded:
    """Read a folder that save_pretrained, or `save`, wrote. `shape`: the model's configuration.

    The head of a tied GPT-2 checkpoint is its embedding; a note says so. Raises ConfigError, in one
    line that says what to do, for anything that is not `model` of this shape.
    """
    family = _family(model)
    config = read_config(folder)
    family.check(str(folder / CONFIG_NAME), config, shape)
    tensors, kinds = read_tensors(folder)
    where = str(folder / WEIGHTS_NAME)
    named = family.named(tensors)
    notes = family.notes(config)
    if family.is_tied(config):
        notes.append(_tie(where, family, named))
    entries = family.entries(shape)
    _check_names(where, family, entries, named)
    _check_shapes(where, entries, named)
    _check_finite(where, entries, named)
    if kinds - {"F32"}:
        notes.append(f"{WEIGHTS_NAME} holds {', '.join(sorted(kinds))}; widened to float32")
    return Loaded({entry.ours: entry.to_ours(named[entry.theirs]) for entry in entries}, notes)


def save(
    folder: Path, model: str, shape: Any, parameters: Mapping[str, npt.NDArray[np.float32]]
) -> None:
    """Write a folder that transformers' from_pretrained, or `load`, reads; whole or not at all.

    The folder must not be there yet, or be empty. Raises ConfigError for that, for a model without
    a counterpart, and for parameters that are not those of `shape`.
    """
    family = _family(model)
    entries = family.entries(shape)
    wrong = {entry.ours for entry in entries} ^ parameters.keys()
    if wrong:
        raise ConfigError(f"{folder}: not the parameters of this {model}: {_some(wrong)} differ")
    for entry in entries:
        found = parameters[entry.ours]
        if found.shape != entry.shape or found.dtype != np.float32:
            raise ConfigError(
                f"{folder}: {entry.ours} is {found.dtype} {found.shape}, not float32 {entry.shape}"
            )
    tensors = {entry.theirs: entry.to_theirs(parameters[entry.ours]) for entry in entries}
    config = json.dumps(family.config(shape), indent=2) + "\n"
    # transformers wants to be told that the layouts are PyTorch's.
    image = encode(tensors, metadata={"format": "pt"})
    write_folder(folder, {CONFIG_NAME: config.encode(), WEIGHTS_NAME: image})


def _family(model: str) -> Family:
    family = FAMILIES.get(model)
    if family is None:
        raise ConfigError(
            f"{model} has no counterpart in transformers to read or write; {' and '.join(FAMILIES)}"
            " have one"
        )
    return family


def _tie(where: str, family: Family, named: Parameters) -> str:
    """Give a tied checkpoint the head that it does not hold; returns the note about it."""
    source = str(family.tied_from)
    embedding = named.get(source)
    head = named.get(family.head)
    if embedding is not None and head is not None and not np.array_equal(head, embedding):
        raise ConfigError(
            f"{where}: config.json ties {family.head} to {source}, but they differ; set "
            "tie_word_embeddings to false if the head is one of its own, or remove the tensor"
        )
    if embedding is not None:
        named[family.head] = embedding
    return (
        f"config.json ties the head to the embedding; {source} is loaded into both, which are "
        "trained apart from here on"
    )


def _check_names(where: str, family: Family, entries: list[Entry], named: Parameters) -> None:
    wanted = {entry.theirs for entry in entries}
    missing, unknown = wanted - named.keys(), named.keys() - wanted
    if missing or unknown:
        raise ConfigError(
            f"{where}: not a {family.architecture} of this shape: missing {_some(missing)}, "
            f"unknown {_some(unknown)}; save the whole {family.architecture}, nothing else, with "
            "save_pretrained"
        )


def _check_shapes(where: str, entries: list[Entry], named: Parameters) -> None:
    wrong = [
        f"{entry.theirs} is {named[entry.theirs].shape}, not {entry.their_shape}"
        for entry in entries
        if named[entry.theirs].shape != entry.their_shape
    ]
    if wrong:
        raise ConfigError(
            f"{where}: {_some(wrong)}; choose the size of the model that the checkpoint has, or "
            "another checkpoint"
        )


def _check_finite(where: str, entries: list[Entry], named: Parameters) -> None:
    wrong = [entry.theirs for entry in entries if not np.isfinite(named[entry.theirs]).all()]
    if wrong:
        raise ConfigError(
            f"{where}: {_some(wrong)}: numbers that are not finite, of a run that diverged or a "
            "damaged file; choose another checkpoint"
        )


def _some(names: set[str] | list[str]) -> str:
    """The first few names, and how many more there are."""
    listed = sorted(names)
    if not listed:
        return "none"
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return ", ".join(listed[:_LISTED]) + more
