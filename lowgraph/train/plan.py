"""Plan: a run with every setting known: from the flags, else a checkpoint, else a preset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from lowgraph.errors import ConfigError
from lowgraph.models.presets import CharLMConfig, find_preset
from lowgraph.ops.control import control_bytes, new_control
from lowgraph.train.config import MAX_LOG_EVERY, TrainConfig
from lowgraph.train.data import Corpus, check_length

__all__ = ["Plan", "Schedule", "make_plan"]

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Schedule:
    """What every step of a run depends on, apart from the model and the text.

    Attributes
    ----------
    steps: length of the run and of the learning-rate schedule: a linear rise over `warmup` steps
        to `learning_rate`, then half a cosine down to `final_share` of it.
    seed: of the initial weights and, with the step number, of each batch. batch: windows a step.
    weight_decay, beta1, beta2, epsilon: AdamW, as torch.optim.AdamW means them.
    """

    steps: int
    warmup: int
    learning_rate: float
    batch: int
    seed: int = 0
    weight_decay: float = 0.1
    final_share: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.99
    epsilon: float = 1e-8

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
            seed=self.seed,
            step=step,
        )
        return control_bytes(block)


@dataclass(frozen=True)
class Plan:
    """A run's model, schedule, and `log_every`: steps between two readings of the losses."""

    preset: str
    shape: CharLMConfig
    schedule: Schedule
    log_every: int

    def check_text(self, corpus: Corpus) -> None:
        """Raise ConfigError for a text shorter than one batch, or than one held-out window."""
        check_length(corpus, self.shape.context, self.schedule.batch)


def make_plan(config: TrainConfig, default_preset: str, resumed: Plan | None = None) -> Plan:
    """Complete the flags. `default_preset`: the device's; `resumed`: the plan to go on with.

    Of a resumed plan only `steps` and `log_every` may change: raises ConfigError naming a flag that
    differs in anything else, since the run would not be the one that was begun.
    """
    if resumed is not None:
        return _continued(config, resumed)
    name = default_preset if config.preset is None else config.preset
    preset = find_preset(name)
    steps = _or(config.steps, preset.steps)
    schedule = Schedule(
        steps=steps,
        warmup=_or(config.warmup, min(100, steps // 10)),
        learning_rate=_or(config.learning_rate, preset.learning_rate),
        batch=_or(config.batch, preset.batch),
        seed=_or(config.seed, Schedule.seed),
        weight_decay=_or(config.weight_decay, Schedule.weight_decay),
    )
    return _checked(Plan(name, preset.model, schedule, _or(config.log_every, _laps(steps))))


def _continued(config: TrainConfig, resumed: Plan) -> Plan:
    kept = resumed.schedule
    _refuse_change("--preset", config.preset, resumed.preset)
    _refuse_change("--batch", config.batch, kept.batch)
    _refuse_change("--seed", config.seed, kept.seed)
    _refuse_change("--lr", config.learning_rate, kept.learning_rate)
    _refuse_change("--warmup", config.warmup, kept.warmup)
    _refuse_change("--weight-decay", config.weight_decay, kept.weight_decay)
    steps = _or(config.steps, kept.steps)
    schedule = Schedule(**{**vars(kept), "steps": steps})
    log_every = _or(config.log_every, _laps(steps))
    return _checked(Plan(resumed.preset, resumed.shape, schedule, log_every))


def _checked(plan: Plan) -> Plan:
    schedule = plan.schedule
    if schedule.warmup > schedule.steps:
        raise ConfigError(
            f"--warmup {schedule.warmup} is longer than the run of {schedule.steps} steps"
        )
    return plan


def _refuse_change(flag: str, given: object, kept: object) -> None:
    if given is not None and given != kept:
        raise ConfigError(
            f"{flag} {given} differs from the resumed run's {kept}; leave the flag out"
        )


def _laps(steps: int) -> int:
    """About twenty progress lines a run."""
    return min(max(1, steps // 20), MAX_LOG_EVERY)


def _or(given: Number | None, otherwise: Number) -> Number:
    return otherwise if given is None else given
