"""The atlas's log: one row a stage a step, as TSV, and what its warm window says.

Columns: step (from 1), stage (full name, empty outside of any; a backslash before a backslash, and
\\t, \\n, \\r for those characters), launches that the step sent, nodes that it ran of a graph, us
on the device. All count the stages inside of a stage too, so that the rows without a "/" add up to
the step.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lowgraph.errors import ConfigError
from lowgraph.train.files import replace_file

__all__ = [
    "COLUMNS",
    "Row",
    "StageSummary",
    "in_order",
    "read_rows",
    "summarise",
    "write_rows",
]

COLUMNS = ("step", "stage", "launches", "nodes", "us")

_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_PLAIN = {text: char for char, text in _ESCAPES.items()}


@dataclass(frozen=True)
class Row:
    """A stage in a step: `us` in microseconds; the others as in the module's text."""

    step: int
    stage: str
    launches: int
    nodes: int
    us: float


@dataclass(frozen=True)
class StageSummary:
    """A stage over the warm window, the last third of the steps that a log has (at least one).

    launches: of an eager step, 0 if the log has none. nodes: of a replayed step of the window.
    us: mean of the window, in microseconds on the device; us_min, us_max: its ends.
    own_*: without what stages inside of it have. steps: in the window.
    """

    stage: str
    launches: int
    nodes: int
    us: float
    us_min: float
    us_max: float
    own_launches: int
    own_nodes: int
    own_us: float
    steps: int

    @property
    def outermost(self) -> bool:
        """Whether it is in no other stage."""
        return "/" not in self.stage


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write a log, whole or not at all. Raises ConfigError if it cannot."""
    lines = ["\t".join(COLUMNS)]
    for row in rows:
        stage = "".join(_ESCAPES.get(char, char) for char in row.stage)
        lines.append(f"{row.step}\t{stage}\t{row.launches}\t{row.nodes}\t{row.us:.3f}")
    try:
        replace_file(path, ("\n".join(lines) + "\n").encode())
    except OSError as error:
        raise ConfigError(f"--tsv {path}: {error.strerror or error}") from error


def read_rows(path: Path) -> list[Row]:
    """Read a log. Raises ConfigError naming file and line for what is none."""
    try:
        lines = path.read_bytes().decode().split("\n")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a log of the atlas: {error}") from error
    if lines[0] != "\t".join(COLUMNS):
        raise ConfigError(
            f"{path}: not a log of the atlas: its first line is not {', '.join(COLUMNS)} with tabs "
            "between; write one with: python -m lowgraph atlas --tsv F"
        )
    if lines[-1]:
        raise ConfigError(f"{path}:{len(lines)}: the last line is cut off; make the log anew")
    rows = [_parsed(path, number, line) for number, line in enumerate(lines[1:-1], 2)]
    if not rows:
        raise ConfigError(f"{path}: a log without a step")
    return rows


def summarise(rows: Sequence[Row]) -> list[StageSummary]:
    """The stages of a log over its warm window, in the order of `in_order`."""
    steps = sorted({row.step for row in rows})
    warm = steps[-math.ceil(len(steps) / 3) :]
    stages = in_order(row.stage for row in rows)
    launches = {name: _most(rows, name, "launches") for name in stages}
    window = [row for row in rows if row.step >= warm[0]]
    times = {name: [row.us for row in window if row.stage == name] or [0.0] for name in stages}
    nodes = {name: _most(window, name, "nodes") for name in stages}
    means = {name: sum(times[name]) / len(times[name]) for name in stages}
    return [
        StageSummary(
            name,
            launches[name],
            nodes[name],
            means[name],
            min(times[name]),
            max(times[name]),
            launches[name] - sum(launches[one] for one in _inside(name, stages)),
            nodes[name] - sum(nodes[one] for one in _inside(name, stages)),
            # Each row's time is rounded, so that the parts may be more than the whole.
            max(0.0, means[name] - sum(means[one] for one in _inside(name, stages))),
            len(warm),
        )
        for name in stages
    ]


def in_order(stages: Iterable[str]) -> list[str]:
    """Each once, in the order in which they come first, those inside of a stage behind it."""
    known = list(dict.fromkeys(stages))
    place = {name: number for number, name in enumerate(known)}

    def key(name: str) -> list[int]:
        parts = name.split("/")
        outer = ("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
        return [place.get(one, len(place)) for one in outer]

    return sorted(known, key=key)


def _parsed(path: Path, number: int, line: str) -> Row:
    cells = line.split("\t")
    try:
        step, stage, launches, nodes, us = cells
        plain = re.sub(r"\\.", lambda found: _PLAIN[found.group()], stage)
        row = Row(int(step), plain, int(launches), int(nodes), float(us))
        if min(row.step - 1, row.launches, row.nodes) < 0 or not 0 <= row.us < math.inf:
            raise ValueError
    except (ValueError, KeyError) as error:
        raise ConfigError(f"{path}:{number}: not a row of the atlas: {line!r}") from error
    return row


def _most(rows: Iterable[Row], stage: str, column: str) -> int:
    return max((getattr(row, column) for row in rows if row.stage == stage), default=0)


def _inside(outer: str, stages: Iterable[str]) -> list[str]:
    """The stages that are directly inside of one."""
    return [name for name in stages if outer and name.rpartition("/")[0] == outer]
