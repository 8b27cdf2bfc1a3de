"""One checkpoint as one safetensors file: the tensors by name, the rest as JSON in its metadata.

Tensors are `parameters/NAME`, `moment1/NAME`, `moment2/NAME` and, in a run that averages its
weights, `ema/NAME`, float32. The metadata's `lowgraph`
is the JSON text of checkpoint_metadata. Its `sha256` covers that text and all tensors, since a
flipped bit may leave another number as easily as it breaks the file.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from lowgraph.errors import ConfigError
from lowgraph.models.registry import find_model
from lowgraph.optim import OPTIMIZERS
from lowgraph.train import checkpoint_metadata
from lowgraph.train.checkpoint_metadata import Cursor, Settings
from lowgraph.train.plan import Plan

__all__ = ["Checkpoint", "Cursor", "decode", "encode"]

_GROUPS = ("parameters", "moment1", "moment2", "ema")
Tensors = dict[str, npt.NDArray[np.float32]]


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
    settings = Settings(checkpoint.plan, checkpoint.config, checkpoint.cursor)
    about = checkpoint_metadata.encode(settings)
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
            about = checkpoint_metadata.load(metadata["lowgraph"])
            tensors = {name: _tensor(opened, name) for name in opened.keys()}  # noqa: SIM118
        if metadata.get("sha256") != _digest(metadata["lowgraph"], tensors):
            raise ValueError("its content does not have the sha256 in its metadata")
        return _assemble(checkpoint_metadata.decode(about), tensors)
    except OSError as error:
        raise ConfigError(f"--resume {file}: {error.strerror or error}") from error
    except (
        SafetensorError,
        ConfigError,
        OverflowError,
        RecursionError,
        ValueError,
    ) as error:
        raise ConfigError(
            f"--resume {file}: not a lowgraph checkpoint, or damaged: {error}"
        ) from error


def _tensor(opened: Any, name: str) -> npt.NDArray[np.float32]:
    """One tensor. Its type is asked first: NumPy has no word for some that the format has."""
    kind = opened.get_slice(name).get_dtype()
    if kind != "F32":
        raise ValueError(f"{name} holds {kind}, not F32")
    value: npt.NDArray[np.float32] = opened.get_tensor(name)
    return value


def _digest(about: str, tensors: Tensors) -> str:
    digest = hashlib.sha256(about.encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"\n{name} {value.dtype} {value.shape}\n".encode())
        digest.update(np.ascontiguousarray(value).data)
    return digest.hexdigest()


def _assemble(settings: Settings, tensors: Tensors) -> Checkpoint:
    plan = settings.plan
    layers = getattr(plan.shape, "layers", 1)
    if layers > len(tensors):  # first: a list of as many tensors' names may not fit in memory
        raise ValueError(f"its model has {layers} layers, it holds {len(tensors)} tensors")
    groups = {group: _group(group, plan, tensors) for group in _held(plan)}
    unknown = len(tensors) - sum(len(group) for group in groups.values())
    if unknown:
        raise ValueError(f"it holds {unknown} tensors more than {plan.preset} has")
    return Checkpoint(plan, settings.config, settings.cursor, **groups)


def _held(plan: Plan) -> tuple[str, ...]:
    """The groups that a run of this plan has."""
    state = OPTIMIZERS[find_model(plan.model).optimizer].state_names
    return ("parameters", *state, *(("ema",) if plan.schedule.averages else ()))


def _group(group: str, plan: Plan, tensors: Tensors) -> Tensors:
    """The tensors of one group by name, each of the shape that the model has."""
    found = {}
    for spec in find_model(plan.model).specs(plan.shape):
        value = tensors.get(f"{group}/{spec.name}")
        if value is None:
            raise ValueError(f"{group}/{spec.name} is missing")
        if value.shape != spec.shape:
            raise ValueError(f"{group}/{spec.name} is {value.shape}, the model has {spec.shape}")
        found[spec.name] = value
    return found
