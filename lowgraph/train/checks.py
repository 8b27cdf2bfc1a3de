"""Checks of single settings, whose messages name the flag."""

from __future__ import annotations

import math
import os
import reprlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from lowgraph.errors import ConfigError

__all__ = ["above_zero", "at_least", "check_folder", "check_kinds", "flag", "naming", "told"]

_FLOAT32_MIN, _FLOAT32_MAX = 1.2e-38, 3.4e38  # normal ones: a GPU may take a smaller one for 0
_KINDS = {"int": int, "float": float, "str": str, "bool": bool, "Path": str}  # as JSON has them
_SPELLED = {"learning_rate": "lr", "clip_norm": "clip", "ema_decay": "ema", "graph": "no_graph"}


def flag(label: str) -> str:
    """The command-line spelling of a field."""
    return "--" + _SPELLED.get(label, label).replace("_", "-")


@contextmanager
def naming(label: str, between: str = " ") -> Iterator[None]:
    """Put a flag before what a ConfigError says, by itself of the path that it names."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{flag(label)}{between}{error}") from error


def check_folder(label: str, path: Path, folder: Path) -> None:
    """Refuse an output whose folder is not there, is a file, or may not be written."""
    # os.path's questions answer False where Path's raise: below a folder that may not be entered.
    if not os.path.isdir(folder):
        state = "is not a folder" if os.path.exists(folder) else "is not there"
        raise ConfigError(f"{flag(label)} {path}: {folder} {state}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(f"{flag(label)} {path}: {folder} may not be written")


def told(value: object) -> str:
    """A value that may be anything, for a message of one line."""
    return reprlib.repr(value)


def check_kinds(cls: Any, values: Mapping[str, Any], whose: str = "") -> None:
    """Raise ValueError for a value of another kind than the dataclass `cls` has by that name.

    JSON has no types to have checked it by. A whole number will do for a float.
    """
    for field in fields(cls):
        word = str(field.type)
        kind = _KINDS.get(word.removesuffix(" | None"))
        if field.name not in values or kind is None:
            continue
        value = values[field.name]
        if value is None and word.endswith(" | None"):
            continue
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise ValueError(f"{whose}{field.name} is {told(value)}, which is no {kind.__name__}")


def at_least(label: str, value: int | None, low: int) -> None:
    """Refuse a number below `low`; None is no number."""
    if value is not None and value < low:
        raise ConfigError(f"{flag(label)} must be at least {low}, got {value}")


def above_zero(label: str, value: float | None) -> None:
    """Refuse a number that is not finite and positive in float32; None is no number."""
    if value is not None and not (value > 0.0 and math.isfinite(value)):
        raise ConfigError(f"{flag(label)} must be a finite number above 0, got {value}")
    if value is not None and not _FLOAT32_MIN <= value <= _FLOAT32_MAX:
        end = f"least {_FLOAT32_MIN}" if value < _FLOAT32_MIN else f"most {_FLOAT32_MAX}"
        raise ConfigError(f"{flag(label)} must be at {end} (float32), got {value}")
