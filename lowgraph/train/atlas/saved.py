"""What an earlier atlas wrote, read again: its rows (--tsv), or all its figures (--json)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from lowgraph.errors import ConfigError
from lowgraph.train.atlas.rows import StageSummary, read_rows, summarise
from lowgraph.train.atlas.subject import Key

__all__ = ["Change", "Saved", "changes", "read_saved"]


@dataclass(frozen=True)
class Saved:
    """An atlas from a file. kernels: launches and nodes by stage and kernel; None of a TSV file."""

    path: Path
    stages: list[StageSummary]
    kernels: dict[Key, tuple[int, int]] | None


@dataclass(frozen=True)
class Change:
    """A kernel of a stage whose launches or nodes differ: (before, after) of each."""

    stage: str
    kernel: str
    launches: tuple[int, int]
    nodes: tuple[int, int]


def read_saved(path: Path) -> Saved:
    """Read a file of --json, which its suffix tells, or of --tsv. Raises ConfigError."""
    if path.suffix.lower() != ".json":
        return Saved(path, summarise(read_rows(path)), None)
    try:
        found = json.loads(path.read_bytes())
        stages = [_stage(one) for one in found["stages"]]
        kernels = {
            (str(one["stage"]), str(one["kernel"])): (int(one["launches"]), int(one["nodes"]))
            for one in found["populations"]
        }
        if not stages:
            raise ValueError("no stages")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        told = "write one with: python -m lowgraph atlas --json F"
        raise ConfigError(f"{path}: not the figures of an atlas; {told}") from error
    return Saved(path, stages, kernels)


def changes(before: Saved, after: Saved) -> list[Change] | None:
    """The kernels whose numbers differ, largest difference first; None if a file has no kernels."""
    if before.kernels is None or after.kernels is None:
        return None
    old, new, none = before.kernels, after.kernels, (0, 0)
    pairs = {key: (old.get(key, none), new.get(key, none)) for key in dict.fromkeys((*old, *new))}
    found = [
        Change(*key, (was[0], now[0]), (was[1], now[1]))
        for key, (was, now) in pairs.items()
        if was != now
    ]
    return sorted(found, key=lambda one: -_size(one))


def _size(change: Change) -> int:
    return max(abs(after - before) for before, after in (change.launches, change.nodes))


def _stage(figures: Mapping[str, Any]) -> StageSummary:
    known = [figures[field.name] for field in fields(StageSummary)]
    stage = StageSummary(*known)
    numbers = known[1:]
    if not isinstance(stage.stage, str) or not all(type(n) in (int, float) for n in numbers):
        raise ValueError(stage)
    return stage
