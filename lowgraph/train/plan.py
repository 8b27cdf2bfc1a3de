"""Plan: a run with every setting known: from the flags, else a checkpoint, else a preset."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from lowgraph.models.protocol import ModelConfig
from lowgraph.models.registry import DEFAULT_MODEL, find_model, find_preset
from lowgraph.ops.control import control_bytes, new_control
from lowgraph.precision import Precision
from lowgraph.train import weights_out
from lowgraph.train.checks import check_kinds, told
from lowgraph.train.config import DEFAULT_PRECISION, MAX_LOG_EVERY, TrainConfig, check_warmup
from lowgraph.train.snapshot import refuse_changes, settings

__all__ = ["Plan", "Schedule", "make_plan", "model_of"]

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Schedule:
    """What every step of a run depends on, apart from the model and the text.

    Attributes
    ----------
    steps: length of the run and of the learning-rate schedule: a linear rise over `warmup` steps
        to `learning_rate`, then, as `schedule` says, half a cosine or a line down to `final_share`
        of it, or nothing.
    seed: of the initial weights and, with the step number, of each batch. batch: windows a step,
        or in each of its `accumulate` micro-batches.
    clip_norm: limit of the gradients' global norm, 0 for none. ema_decay: of the average of the
        weights, 0 for none.
    weight_decay, beta1, beta2, epsilon: AdamW, as torch.optim.AdamW means them.
    """

    steps: int
    warmup: int
    learning_rate: float
    batch: int
    seed: int = 0
    weight_decay: float = 0.1
    clip_norm: float = 0.0
    ema_decay: float = 0.0
    accumulate: int = 1
    schedule: str = "cosine"
    final_share: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.99
    epsilon: float = 1e-8

    def rate(self, step: int) -> float:
        """The learning rate of step number `step`, from 1 (kernels_cu/control.cu's formula)."""
        low = self.learning_rate * self.final_share
        if step <= self.warmup:
            return self.learning_rate * step / self.warmup
        if self.schedule == "constant":
            return self.learning_rate
        if step >= self.steps:
            return low
        progress = (step - self.warmup) / (self.steps - self.warmup)
        if self.schedule == "linear":
            return low + (self.learning_rate - low) * (1.0 - progress)
        return low + (self.learning_rate - low) * (1.0 + math.cos(math.pi * progress)) / 2

    @property
    def windows(self) -> int:
        """Windows a step, those of all micro-batches."""
        return self.batch * self.accumulate

    @property
    def averages(self) -> bool:
        """Whether an average of the weights is kept."""
        return self.ema_decay > 0

    def weights_out(self, asked: str | None) -> str:
        """Which weights come out, one of weights_out.KINDS. Raises ConfigError as that does."""
        return weights_out.chosen(asked, averages=self.averages)

    def control_block(self, step: int) -> npt.NDArray[np.uint8]:
        """The control block, as bytes, with `step` steps done."""
        block = new_control(
            total_steps=self.steps,
            warmup_steps=self.warmup,
            lr_max=self.learning_rate,
            lr_min=self.learning_rate * self.final_share,
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon,
            weight_decay=self.weight_decay,
            schedule=self.schedule,
            clip_norm=self.clip_norm,
            ema_decay=self.ema_decay,
            ema_warmup=True,
            seed=self.seed,
            step=step,
        )
        return control_bytes(block)


@dataclass(frozen=True)
class Plan:
    """A run's model, schedule, and `log_every`: steps between two readings of the losses.

    shape: of the configuration class that the registry has for `model`. precision: a Precision's
    word.
    """

    model: str
    preset: str
    shape: ModelConfig
    schedule: Schedule
    log_every: int
    precision: str = DEFAULT_PRECISION

    def values(self) -> dict[str, Any]:
        """Its settings by name, the schedule's among them, the shape as a dict."""
        names = "model", "preset", "log_every", "precision"
        own = {name: getattr(self, name) for name in names}
        return {**asdict(self.schedule), **own, "shape": asdict(self.shape)}

    @classmethod
    def setting_names(cls) -> list[str]:
        """What `values` has, of every plan."""
        own = [field.name for field in fields(cls) if field.name != "schedule"]
        return [field.name for field in fields(Schedule)] + own

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Plan:
        """The plan that has these `values`, one of each of `setting_names`.

        Raises ValueError or ConfigError for values that make none.
        """
        schedule = {field.name: values[field.name] for field in fields(Schedule)}
        check_kinds(Schedule, schedule)
        check_kinds(cls, values)
        model, sizes = values["model"], values["shape"]
        shape = find_model(model).config
        if not isinstance(sizes, Mapping) or sizes.keys() != {part.name for part in fields(shape)}:
            raise ValueError(f"shape is {told(sizes)}, which is none of a {model}")
        check_kinds(shape, sizes, "shape's ")
        Precision(values["precision"])
        own = values["log_every"], values["precision"]
        return cls(model, values["preset"], shape(**sizes), Schedule(**schedule), *own)


def model_of(config: TrainConfig, resumed: Plan | None = None) -> str:
    """The model that a run is of: the flag's, else that of the plan to go on with."""
    if config.model is not None:
        return config.model
    return DEFAULT_MODEL if resumed is None else resumed.model


def make_plan(config: TrainConfig, device_kind: str, resumed: Plan | None = None) -> Plan:
    """Complete the flags. `device_kind`: "host" or "cuda"; `resumed`: the plan to go on with.

    Of a resumed plan only `steps` and `log_every` may change: raises ConfigError naming a flag that
    differs in anything else, since the run would not be the one that was begun.
    """
    if resumed is not None:
        return _continued(config, resumed)
    model, name = model_of(config), config.preset
    if name is None:
        name = find_model(model).default_presets[device_kind]
    preset = find_preset(model, name)
    steps = _or(config.steps, preset.steps)
    schedule = Schedule(
        steps=steps,
        warmup=_or(config.warmup, min(100, steps // 10)),
        learning_rate=_or(config.learning_rate, preset.learning_rate),
        batch=_or(config.batch, preset.batch),
        seed=_or(config.seed, Schedule.seed),
        **_update(config),
    )
    laps = _or(config.log_every, _laps(steps))
    precision = config.precision or DEFAULT_PRECISION
    return _checked(Plan(model, name, preset.model, schedule, laps, precision))


def _continued(config: TrainConfig, resumed: Plan) -> Plan:
    refuse_changes(resumed.values(), settings(config))
    resumed.schedule.weights_out(config.weights_out)  # for its refusal
    steps = _or(config.steps, resumed.schedule.steps)
    schedule = replace(resumed.schedule, steps=steps)
    log_every = _or(config.log_every, _laps(steps))
    return _checked(replace(resumed, schedule=schedule, log_every=log_every))


def _update(config: TrainConfig) -> dict[str, Any]:
    """The settings of the update, whose defaults are no preset's but the schedule's own."""
    names = "weight_decay", "clip_norm", "ema_decay", "accumulate", "schedule", "final_share"
    given = {name: getattr(config, name) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def _checked(plan: Plan) -> Plan:
    check_warmup(plan.schedule.warmup, plan.schedule.steps)
    return plan


def _laps(steps: int) -> int:
    """About twenty progress lines a run."""
    return min(max(1, steps // 20), MAX_LOG_EVERY)


def _or(given: Number | None, otherwise: Number) -> Number:
    return otherwise if given is None else given
