"""The control block on the device: step number, learning-rate schedule, optimizer scalars, seed.

What changes from step to step lives here and not in launch arguments, so that one recorded graph
serves every step. The layout is kernels_cu/common/control.cuh's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lowgraph.errors import ConfigError
from lowgraph.integers import integer
from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream

__all__ = [
    "CONTROL_DTYPE",
    "SCHEDULES",
    "SETTINGS",
    "SETTINGS_BYTES",
    "STEP_OFFSET",
    "Control",
    "control_bytes",
    "new_control",
    "read_control",
]

_SETTINGS: list[tuple[str, type]] = [
    ("total_steps", np.int64),
    ("warmup_steps", np.int64),
    ("seed", np.uint64),
    ("beta1", np.float64),
    ("beta2", np.float64),
    ("ema_decay", np.float64),
    ("clip_norm", np.float64),
    ("lr_max", np.float32),
    ("lr_min", np.float32),
    ("epsilon", np.float32),
    ("weight_decay", np.float32),
    ("schedule", np.int32),
    ("ema_warmup", np.int32),
]
_STATE: list[tuple[str, type]] = [
    ("step", np.int64),
    ("lr", np.float32),
    ("decay", np.float32),
    ("step_size", np.float32),
    ("root_bias2", np.float32),
    ("keep1", np.float32),
    ("gain1", np.float32),
    ("keep2", np.float32),
    ("gain2", np.float32),
    ("ema_keep", np.float32),
    ("ema_gain", np.float32),
]

SCHEDULES = ("cosine", "linear", "constant")
"""How the learning rate goes after the warm-up; the block holds the place in this list."""

_ONE_OF = " or ".join(SCHEDULES)

CONTROL_DTYPE: np.dtype[Any] = np.dtype([*_SETTINGS, *_STATE])
"""One control block, 128 bytes: settings written by the host, then the running step's state."""

SETTINGS = tuple(name for name, _ in _SETTINGS)
"""Names of the fields that only the host writes."""

SETTINGS_BYTES = np.dtype(_SETTINGS).itemsize
"""Bytes of the settings, at the begin of the block."""

STEP_OFFSET = int(np.dtype(CONTROL_DTYPE).fields["step"][1])  # type: ignore[index]
"""Where in the block the running step's number is, int64."""


def new_control(
    *,
    total_steps: int,
    warmup_steps: int = 0,
    lr_max: float,
    lr_min: float = 0.0,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.01,
    schedule: str = "cosine",
    clip_norm: float = 0.0,
    ema_decay: float = 0.0,
    ema_warmup: bool = False,
    seed: int = 0,
    step: int = 0,
) -> np.ndarray[Any, np.dtype[Any]]:
    """Return a control block before its first advance, as an array of shape (1,).

    step: steps already done (a resumed run); the next advance makes it step + 1.
    schedule: the learning rate rises linearly to lr_max over warmup_steps; then it falls to lr_min
    at total_steps, along half a cosine ("cosine") or a line ("linear"), and stays there, or it
    stays at lr_max ("constant", which has no use for lr_min).
    clip_norm: the gradients' global norm is scaled down to it, as torch.nn.utils.clip_grad_norm_
    does; 0 clips nothing. ema_decay: ema = decay * ema + (1 - decay) * param at each step, in
    [0, 1); with ema_warmup the decay is at most (1 + step) / (10 + step), step 1 being the first,
    so that the average leaves the initial weights soon.
    Raises ConfigError on settings that no run can have.
    """
    total_steps = _integer("total_steps", total_steps, 1, 2**63 - 1)
    warmup_steps = _integer("warmup_steps", warmup_steps, 0, total_steps)
    seed = _integer("seed", seed, 0, 2**64 - 1)
    step = _integer("step", step, 0, 2**63 - 1)
    _check(0 <= beta1 < 1 and 0 <= beta2 < 1, f"betas must be in [0, 1), got {beta1}, {beta2}")
    _check(0 <= lr_min <= lr_max, f"0 <= lr_min <= lr_max must hold, got {lr_min}, {lr_max}")
    _check(schedule in SCHEDULES, f"schedule must be {_ONE_OF}, got {schedule!r}")
    clips = 0 <= clip_norm < math.inf
    _check(clips, f"clip_norm must be finite and at least 0 (0: no clipping), got {clip_norm}")
    _check(0 <= ema_decay < 1, f"ema_decay must be in [0, 1), got {ema_decay}")
    block = np.zeros(1, CONTROL_DTYPE)
    settings = {
        "total_steps": total_steps,
        "warmup_steps": warmup_steps,
        "seed": np.uint64(seed),
        "beta1": beta1,
        "beta2": beta2,
        "lr_max": lr_max,
        "lr_min": lr_min,
        "epsilon": epsilon,
        "weight_decay": weight_decay,
        "schedule": SCHEDULES.index(schedule),
        "clip_norm": clip_norm,
        "ema_decay": ema_decay,
        "ema_warmup": ema_warmup,
        "step": step,
    }
    for name, value in settings.items():
        block[name] = value
    return block


def control_bytes(block: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return a control block as its 128 bytes (uint8), for an upload."""
    return np.ascontiguousarray(block).view(np.uint8).reshape(-1)


def read_control(data: np.ndarray[Any, np.dtype[np.uint8]]) -> dict[str, Any]:
    """Return a downloaded block's 128 bytes by field name: as new_control takes them, and state."""
    block = np.ascontiguousarray(data).view(CONTROL_DTYPE).reshape(-1)[0]
    values = {name: block[name].item() for name in CONTROL_DTYPE.fields or ()}
    values["schedule"] = SCHEDULES[values["schedule"]]
    values["ema_warmup"] = bool(values["ema_warmup"])
    return values


class Control:
    """Advances a control block (kernels_cu/control.cu)."""

    def __init__(self, library: Library) -> None:
        """Take the kernel from `library`."""
        self._advance = library.kernel("control.cu", "control_advance")

    def advance(self, stream: Stream, control: Pointer) -> None:
        """Begin the next step: raise `step` by one and rewrite the state; one launch."""
        self._advance(stream, 1, 1, control)


def _integer(name: str, value: int, low: int, high: int) -> int:
    # The block's fields would take the whole part of anything.
    return integer(value, f"control block: {name}", low, high)


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigError(f"control block: {message}")
