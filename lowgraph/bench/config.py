"""BenchConfig: what the command was asked for, checked before any device work."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path

from lowgraph.bench.rows import ROWS, SUITES, Row
from lowgraph.errors import ConfigError

__all__ = ["BenchConfig", "checkout"]


@dataclass(frozen=True)
class BenchConfig:
    """What to measure.

    Attributes
    ----------
    device: "auto", "host", "cuda" or "cuda:N".
    suite: "launch", "train" or "tail"; None is all.
    rows: identifiers of rows; empty is all of the suite.
    json: a file to write. plot: a folder for the pictures.
    rounds: timed bursts of each arm. burst_ms: about how long one is.
    rivals: False leaves the rivals out.
    minutes: after which no further row is begun; None is no limit.
    at_once: the rivals of all rows are opened before the first of those rows is timed.

    Raises ConfigError, naming the flag, on what cannot be.
    """

    device: str = "auto"
    suite: str | None = None
    rows: tuple[str, ...] = ()
    json: Path | None = None
    plot: Path | None = None
    rounds: int = 15
    burst_ms: float = 40.0
    rivals: bool = True
    minutes: float | None = None
    at_once: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"auto|host|cuda(:\d+)?", self.device):
            raise ConfigError(f"unknown device {self.device!r}; use auto, host, cuda or cuda:N")
        if self.suite is not None and self.suite not in SUITES:
            raise ConfigError(f"unknown suite {self.suite!r}; there are {', '.join(SUITES)}")
        unknown = [name for name in self.rows if name not in ROWS]
        if unknown:
            raise ConfigError(f"--rows {unknown[0]!r}: no such row; there are {', '.join(ROWS)}")
        if self.rounds < 1 or not 0 < self.burst_ms < math.inf:
            raise ConfigError("--rounds and --burst-ms must be above 0, and finite")
        if self.minutes is not None and not 0 < self.minutes < math.inf:
            raise ConfigError(f"--minutes {self.minutes:g}: must be above 0, and finite")
        if not self.chosen():
            raise ConfigError(f"--rows {','.join(self.rows)}: none is of the suite {self.suite}")
        folder = self.json and self.json.absolute().parent
        if folder is not None and not os.path.isdir(folder):
            raise ConfigError(f"--json: the folder {folder} does not exist; create it first")
        if folder is not None and not os.access(folder, os.W_OK | os.X_OK):
            raise ConfigError(f"--json: the folder {folder} may not be written")
        if self.json is not None and os.path.isdir(self.json):
            raise ConfigError(f"--json {self.json} is a folder; give a file name")

    def chosen(self) -> list[Row]:
        """The rows to measure, in the order of the table."""
        named = self.rows or tuple(ROWS)
        return [ROWS[name] for name in ROWS if name in named and self._in_suite(ROWS[name])]

    def _in_suite(self, row: Row) -> bool:
        return self.suite is None or row.suite == self.suite


def checkout() -> Path:
    """The folder of rivals and benchmark kernels; ConfigError without a checkout around us."""
    folder = Path(__file__).resolve().parents[2] / "benchmarks"
    if not (folder / "rivals" / "torch_rival.py").is_file():
        raise ConfigError(
            f"bench runs from a checkout: {folder} has no rivals, which are not part of the "
            "installed package; clone the repository and run `python -m lowgraph bench` in it"
        )
    return folder
