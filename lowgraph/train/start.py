"""What comes before a run: the checkpoint it goes on from, and room for its outputs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lowgraph.driver import Device
from lowgraph.errors import ConfigError
from lowgraph.memory import counted
from lowgraph.models import huggingface
from lowgraph.models.registry import find_model
from lowgraph.train import checkpoint
from lowgraph.train.checkpoint import Checkpoint
from lowgraph.train.checks import naming
from lowgraph.train.config import TrainConfig
from lowgraph.train.files import remove_leftovers
from lowgraph.train.plan import Plan

__all__ = [
    "initial_weights",
    "prepare_outputs",
    "resume_from",
    "what_is_not_the_same",
    "what_the_data_changed",
    "with_data_of",
]

Say = Callable[[str], None]


def resume_from(path: Path, say: Say) -> Checkpoint:
    """Read the checkpoint that a folder or a file has, and say which. Raises ConfigError."""
    file = checkpoint.find(path)
    found = checkpoint.read(file)
    say(f"resume: {counted(found.step, 'step')} done, from {file}")
    if file != path and file.name == checkpoint.PREVIOUS_NAME:
        say(f"resume: it is the one before; a killed writer left no {checkpoint.FILE_NAME}")
    return found


def with_data_of(config: TrainConfig, resume: Checkpoint) -> TrainConfig:
    """The config with the resumed run's data where the flag was left out.

    Raises ConfigError, naming that path, when nothing is there any more.
    """
    kept = resume.config["data"]
    if config.data is not None or kept is None:
        return config
    if not os.path.exists(kept):
        raise ConfigError(
            f"the resumed run had --data {kept}, which is not there; say with --data where it is"
        )
    return replace(config, data=Path(kept))


def initial_weights(
    config: TrainConfig, plan: Plan, say: Say
) -> dict[str, npt.NDArray[np.float32]] | None:
    """Parameters from the folder of `config.weights`; None without one, for the plan's own.

    Raises ConfigError for a folder that is not of the plan's model and shape.
    """
    if config.weights is None:
        return None
    with naming("weights"):
        loaded = huggingface.load(config.weights, plan.model, plan.shape)
    for line in (f"from {config.weights}", *loaded.notes):
        say(f"weights: {line}")
    return loaded.parameters


def what_is_not_the_same(resume: Checkpoint, plan: Plan, device: Device) -> Iterator[str]:
    """What keeps a resumed run from being, bit for bit, what it would have been uninterrupted."""
    was, steps = resume.config["device"], resume.plan.schedule.steps
    if was != device.spec:
        yield f"resume: begun on {was}; the bits of another device differ"
    if steps != plan.schedule.steps:
        now = plan.schedule.steps
        does = "stretches" if now > steps else "shortens"
        yield (
            f"resume: begun with --steps {steps}; {now} {does} the learning-rate schedule from "
            "here on"
        )


def what_the_data_changed(plan: Plan) -> Iterator[str]:
    """How the shape differs from its preset's, since the data are of another number of features."""
    preset = find_model(plan.model).presets.get(plan.preset)
    usual = {} if preset is None else asdict(preset.model)
    for name, value in asdict(plan.shape).items():
        if usual.get(name, value) != value:
            yield f"model: {name} {value}, as the data have; preset {plan.preset} has {usual[name]}"


def prepare_outputs(config: TrainConfig, say: Say) -> None:
    """Remove what killed runs left; the outputs themselves stay until there are new ones."""
    if config.checkpoint is not None:
        for line in checkpoint.prepare(config.checkpoint):
            say(f"checkpoint: {line}")
    for label, path in (("--json", config.json), ("--plot", config.plot)):
        try:
            for name in [] if path is None else remove_leftovers(path):
                say(f"{label[2:]}: removed {name}, left by a killed run")
        except OSError as error:
            raise ConfigError(f"{label} {path}: {error.strerror or error}") from error
