"""What a checkpoint says beside its tensors: a JSON text, checked before anything is made of it.

The text is an object: format, version, config (every field of TrainConfig), fixed (the plan's
settings that no flag sets) and cursor. A right sha256 only says that it is as it was written: by
hand it may have been made anything, so each value's kind and range is asked here. Whatever is
wrong is a ValueError or a ConfigError of one line.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Set
from dataclasses import asdict, dataclass, fields
from typing import Any, NoReturn

from lowgraph._version import VERSION
from lowgraph.errors import ConfigError
from lowgraph.train.checks import at_least, check_kinds, told
from lowgraph.train.config import TrainConfig
from lowgraph.train.plan import Plan
from lowgraph.train.snapshot import MAY_CHANGE

__all__ = ["Cursor", "Settings", "decode", "encode", "load"]

_FORMAT = 3
_PADDED = 4096  # the files of a run have one size, whatever the step, and the length of a path
_KEYS = {"format", "version", "config", "fixed", "cursor"}
_SETTINGS = {field.name: field.default for field in fields(TrainConfig)}
# Paths are looked at where they are used; a preset may have been renamed, as its shape is here.
_NOT_ASKED = ("preset", "data", "json", "plot", "log", "checkpoint", "resume", "weights", "export")
_MOST = 2**63  # numbers from here on have no place in 64 bits


@dataclass(frozen=True)
class Cursor:
    """Where a run stands.

    step: steps done. seed: with the step the whole state of the random generator, which is a
    function of both (kernels_cu/common/philox.cuh), and so of the position in the text: step n
    draws the same windows in every run. data_sha256, data_bytes: of that text.
    masked_elements, masked_steps: elements of gradients that were not finite in the steps done, and
    the steps that had any; 0 where the file is from before they were kept.
    """

    step: int
    seed: int
    data_sha256: str
    data_bytes: int
    masked_elements: int = 0
    masked_steps: int = 0


@dataclass(frozen=True)
class Settings:
    """All of the text that a run needs."""

    plan: Plan
    config: dict[str, Any]
    cursor: Cursor


def encode(settings: Settings) -> str:
    """The text, with blanks up to a multiple of `_PADDED` bytes as the file's header spells it."""
    config, values = settings.config, settings.plan.values()
    about = json.dumps(
        {
            "format": _FORMAT,
            "version": VERSION,
            "config": config,
            "fixed": {name: value for name, value in values.items() if name not in config},
            "cursor": asdict(settings.cursor),
        },
        sort_keys=True,
    )
    return about + " " * (-len(json.dumps(about)) % _PADDED)


def load(text: str) -> dict[str, Any]:
    """The text's object, of this format and with the settings of this version."""
    about = json.loads(text, parse_constant=_no_number)
    if not isinstance(about, dict):
        raise ValueError("its metadata's 'lowgraph' is no JSON object")
    if about.get("format") != _FORMAT:
        raise ValueError(f"format {told(about.get('format'))}, this version reads {_FORMAT}")
    _check_names("metadata", about, _KEYS)
    for name in ("config", "fixed", "cursor"):
        if not isinstance(about[name], dict):
            raise ValueError(f"its {name!r} is no JSON object")
    different = sorted(_SETTINGS.keys() ^ about["config"].keys())
    # A setting that came since, and that a resumed run may change anyway, has its default.
    if any(name in about["config"] or name not in MAY_CHANGE for name in different):
        raise ValueError(
            f"lowgraph {told(about['version'])} wrote it, whose settings differ from those of "
            f"{VERSION} in {', '.join(different)}"
        )
    return about


def decode(about: dict[str, Any]) -> Settings:
    """What `load` gave, with every value of its kind and in its range."""
    config = {**_SETTINGS, **about["config"]}
    check_kinds(TrainConfig, config)
    plan = _plan(config, about["fixed"])
    _check_ranges(config, plan)
    return Settings(plan, config, _cursor(about["cursor"], plan))


def _plan(config: dict[str, Any], fixed: dict[str, Any]) -> Plan:
    expected = set(Plan.setting_names()) - config.keys()
    _check_names("'fixed'", fixed, expected)
    return Plan.from_values({**config, **fixed})


def _check_ranges(config: dict[str, Any], plan: Plan) -> None:
    asked = {**config, **dict.fromkeys(_NOT_ASKED), "checkpoint_every": 0}
    if config["schedule"] == "constant":  # which has a final share, that no flag gave
        asked["schedule"] = None
    try:
        at_least("checkpoint_every", config["checkpoint_every"], 0)
        TrainConfig(**asked)
    except ConfigError as error:
        raise ValueError(f"a setting in it is one that no run has: {error}") from error
    schedule = plan.schedule
    for name in ("beta1", "beta2"):
        if not 0.0 <= getattr(schedule, name) < 1.0:
            raise ValueError(f"{name} is {getattr(schedule, name)}, not from 0 to below 1")
    if not 0.0 < schedule.epsilon < math.inf:
        raise ValueError(f"epsilon is {schedule.epsilon}, no finite number above 0")


def _cursor(values: dict[str, Any], plan: Plan) -> Cursor:
    every = {field.name for field in fields(Cursor)}
    _check_names("'cursor'", values, every, missing={"masked_elements", "masked_steps"})
    cursor = Cursor(**values)
    check_kinds(Cursor, values, "the cursor's ")
    for name, value in asdict(cursor).items():
        if type(value) is int and not 0 <= value < _MOST:
            raise ValueError(f"the cursor's {name} is {told(value)}, which is no count")
    if not re.fullmatch("[0-9a-f]{64}", cursor.data_sha256):
        raise ValueError(f"the cursor's data_sha256 is {told(cursor.data_sha256)}, no sha256")
    if cursor.seed != plan.schedule.seed:
        raise ValueError(f"the cursor has seed {cursor.seed}, the run {plan.schedule.seed}")
    elements, steps = cursor.masked_elements, cursor.masked_steps
    if steps > cursor.step or elements < steps or bool(elements) != bool(steps):
        raise ValueError(
            f"the cursor has {elements} masked elements in {steps} of {cursor.step} steps, which "
            "cannot be"
        )
    return cursor


def _check_names(
    what: str, values: dict[str, Any], expected: Set[str], missing: Set[str] = frozenset()
) -> None:
    """missing: names that may be left out."""
    lacks, more = sorted(expected - missing - values.keys()), sorted(values.keys() - expected)
    if lacks:
        raise ValueError(f"its {what} lacks {', '.join(lacks)}")
    if more:
        raise ValueError(
            f"its {what} has {told(', '.join(more))}, which this version does not know"
        )


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"its metadata holds {text}, which is no finite number")
