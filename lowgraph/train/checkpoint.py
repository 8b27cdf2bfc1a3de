"""Checkpoints: parameters and both moments by name in one safetensors file, the rest as metadata.

A folder holds one file, replaced whole: it is written beside the old one and renamed, so that a
reader sees the old run or the new one and never half of either.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from lowgraph.errors import ConfigError
from lowgraph.models.presets import CharLMConfig
from lowgraph.train.files import replace_file
from lowgraph.train.plan import Plan, Schedule

__all__ = ["FILE_NAME", "Checkpoint", "read", "write"]

FILE_NAME = "checkpoint.safetensors"
_FORMAT = 1
_GROUPS = ("parameters", "moment1", "moment2")
Tensors = dict[str, npt.NDArray[np.float32]]


@dataclass(frozen=True)
class Checkpoint:
    """A run as it stood after `step` steps.

    step is also the data cursor: a batch is drawn from the plan's seed and the step number.
    data_sha256: of the text. parameters, moment1, moment2: tensors by name.
    """

    plan: Plan
    step: int
    data_sha256: str
    parameters: Tensors
    moment1: Tensors
    moment2: Tensors


def write(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write into a folder, made if needed; returns the file. Raises ConfigError if it cannot."""
    tensors = {
        f"{group}/{name}": np.ascontiguousarray(value)
        for group in _GROUPS
        for name, value in getattr(checkpoint, group).items()
    }
    about = {
        "format": _FORMAT,
        "plan": asdict(checkpoint.plan),
        "step": checkpoint.step,
        "data_sha256": checkpoint.data_sha256,
    }
    image = save(tensors, metadata={"lowgraph": json.dumps(about)})
    target = folder / FILE_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(target, image)
    except OSError as error:
        raise ConfigError(f"--checkpoint {target}: {error.strerror or error}") from error
    return target


def read(folder: Path) -> Checkpoint:
    """Read a folder's checkpoint; ConfigError when there is none or it is damaged."""
    file = folder / FILE_NAME
    if not os.path.isfile(file):  # where a folder may not be entered, Path.is_file raises
        raise ConfigError(f"--resume {folder}: there is no {FILE_NAME} in it")
    try:
        with safe_open(str(file), framework="numpy") as opened:
            about = json.loads((opened.metadata() or {})["lowgraph"])
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        return _assemble(about, tensors)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"--resume {file}: not a lowgraph checkpoint, or damaged: {error}"
        ) from error


def _assemble(about: dict[str, Any], tensors: Tensors) -> Checkpoint:
    if about["format"] != _FORMAT:
        raise ValueError(f"format {about['format']}, this version reads {_FORMAT}")
    groups: dict[str, Tensors] = {group: {} for group in _GROUPS}
    for name, value in tensors.items():
        group, _, tensor = name.partition("/")
        if value.dtype != np.float32:
            raise ValueError(f"{name} holds {value.dtype}, not float32")
        groups[group][tensor] = value
    plan = dict(about["plan"])
    plan["shape"] = CharLMConfig(**plan["shape"])
    plan["schedule"] = _schedule(plan["schedule"])
    return Checkpoint(Plan(**plan), int(about["step"]), about["data_sha256"], **groups)


def _schedule(values: dict[str, Any]) -> Schedule:
    schedule = Schedule(**values)
    for field in fields(Schedule):
        value = getattr(schedule, field.name)
        if type(value) is not int and (field.type == "int" or type(value) is not float):
            raise ValueError(f"{field.name} is {value!r}, not a number of the right kind")
    return schedule
