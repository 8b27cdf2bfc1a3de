"""One checkpoint as one safetensors file: the tensors by name, the rest as JSON in its metadata.

Tensors are `parameters/NAME`, `moment1/NAME`, `moment2/NAME` and, in a run that averages its
weights, `ema/NAME`, float32. The metadata's `lowgraph`
is a JSON object: format, version, config (every field of TrainConfig), fixed (the plan's settings
that no flag sets) and cursor. Its `sha256` covers that text and all tensors, since a flipped bit
may leave another number as easily as it breaks the file.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from lowgraph._version import VERSION
from lowgraph.errors import ConfigError
from lowgraph.models.registry import find_model
from lowgraph.optim import OPTIMIZERS
from lowgraph.train.config import TrainConfig
from lowgraph.train.plan import Plan

__all__ = ["Checkpoint", "Cursor", "decode", "encode"]

_FORMAT = 3
_PADDED = 4096  # the files of a run have one size, whatever the step, and the length of a path
_GROUPS = ("parameters", "moment1", "moment2", "ema")
Tensors = dict[str, npt.NDArray[np.float32]]


@dataclass(frozen=True)
class Cursor:
    """Where a run stands.

    step: steps done. seed: with the step the whole state of the random generator, which is a
    function of both (kernels_cu/common/philox.cuh), and so of the position in the text: step n
    draws the same windows in every run. data_sha256, data_bytes: of that text.
    """

    step: int
    seed: int
    data_sha256: str
    data_bytes: int


@dataclass(frozen=True)
class Checkpoint:
    """A run as it stood.

    config: `snapshot` of what it was asked for; plan: the same complete, with the model's shape.
    parameters: tensors by name. moment1, moment2: likewise, empty in a run of an optimizer without
    them. ema: likewise, empty in a run without an average.
    """

    plan: Plan
    config: dict[str, Any]
    cursor: Cursor
    parameters: Tensors
    moment1: Tensors = field(default_factory=dict)
    moment2: Tensors = field(default_factory=dict)
    ema: Tensors = field(default_factory=dict)

    @property
    def step(self) -> int:
        """Steps done."""
        return self.cursor.step

    def weights(self, which: str) -> Tensors:
        """Those that TrainConfig.weights_out calls so: the parameters, or their average."""
        return {"plain": self.parameters, "ema": self.ema}[which]


def encode(checkpoint: Checkpoint) -> bytes:
    """The file's content."""
    tensors = {
        f"{group}/{name}": np.ascontiguousarray(value)
        for group in _GROUPS
        for name, value in getattr(checkpoint, group).items()
    }
    about = _about(checkpoint)
    metadata = {"lowgraph": about, "sha256": _digest(about, tensors)}
    image: bytes = save(tensors, metadata=metadata)
    return image


def decode(file: Path) -> Checkpoint:
    """Read a file whole. ConfigError, in one line, when it is damaged or something else."""
    try:
        with safe_open(str(file), framework="numpy") as opened:
            metadata = opened.metadata() or {}
            if "lowgraph" not in metadata:
                raise ValueError("its metadata has no entry 'lowgraph'")
            about = json.loads(metadata["lowgraph"])
            _check_format(about)
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        if metadata.get("sha256") != _digest(metadata["lowgraph"], tensors):
            raise ValueError("its content does not have the sha256 in its metadata")
        return _assemble(about, tensors)
    except OSError as error:
        raise ConfigError(f"--resume {file}: {error.strerror or error}") from error
    except (
        SafetensorError,
        ConfigError,
        KeyError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise ConfigError(
            f"--resume {file}: not a lowgraph checkpoint, or damaged: {error}"
        ) from error


def _about(checkpoint: Checkpoint) -> str:
    """The JSON text, with blanks up to a multiple of `_PADDED` bytes as the header spells it."""
    config, values = checkpoint.config, checkpoint.plan.values()
    about = json.dumps(
        {
            "format": _FORMAT,
            "version": VERSION,
            "config": config,
            "fixed": {name: value for name, value in values.items() if name not in config},
            "cursor": asdict(checkpoint.cursor),
        },
        sort_keys=True,
    )
    return about + " " * (-len(json.dumps(about)) % _PADDED)


def _digest(about: str, tensors: Tensors) -> str:
    digest = hashlib.sha256(about.encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"\n{name} {value.dtype} {value.shape}\n".encode())
        digest.update(np.ascontiguousarray(value).data)
    return digest.hexdigest()


def _check_format(about: Any) -> None:
    if about["format"] != _FORMAT:
        raise ValueError(f"format {about['format']}, this version reads {_FORMAT}")
    if not isinstance(about["config"], dict):
        raise ValueError("its 'config' is no JSON object")
    ours = {field.name for field in fields(TrainConfig)}
    different = sorted(ours ^ about["config"].keys())
    if different:
        raise ValueError(
            f"lowgraph {about['version']} wrote it, whose settings differ from those of {VERSION} "
            f"in {', '.join(different)}"
        )


def _assemble(about: dict[str, Any], tensors: Tensors) -> Checkpoint:
    plan = Plan.from_values({**about["config"], **about["fixed"]})
    cursor = Cursor(**about["cursor"])
    if type(cursor.step) is not int or cursor.step < 0:
        raise ValueError(f"step is {cursor.step!r}, which is no count")
    if cursor.seed != plan.schedule.seed:
        raise ValueError(f"the cursor has seed {cursor.seed}, the run {plan.schedule.seed}")
    groups = {group: _group(group, plan, tensors) for group in _held(plan)}
    unknown = len(tensors) - sum(len(group) for group in groups.values())
    if unknown:
        raise ValueError(f"it holds {unknown} tensors more than {plan.preset} has")
    return Checkpoint(plan, about["config"], cursor, **groups)


def _held(plan: Plan) -> tuple[str, ...]:
    """The groups that a run of this plan has."""
    state = OPTIMIZERS[find_model(plan.model).optimizer].state_names
    return ("parameters", *state, *(("ema",) if plan.schedule.averages else ()))


def _group(group: str, plan: Plan, tensors: Tensors) -> Tensors:
    """The tensors of one group by name, each of the kind and shape that the model has."""
    found = {}
    for spec in find_model(plan.model).specs(plan.shape):
        value = tensors.get(f"{group}/{spec.name}")
        if value is None:
            raise ValueError(f"{group}/{spec.name} is missing")
        if value.dtype != np.float32:
            raise ValueError(f"{group}/{spec.name} holds {value.dtype}, not float32")
        if value.shape != spec.shape:
            raise ValueError(f"{group}/{spec.name} is {value.shape}, the model has {spec.shape}")
        found[spec.name] = value
    return found
