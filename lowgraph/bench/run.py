"""Running the benchmark: every case in turn, then the table, the file and the pictures."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lowgraph.bench import plot, table
from lowgraph.bench.cases import Case, cases
from lowgraph.bench.config import BenchConfig, checkout
from lowgraph.bench.measure import Limit, Measured, measure
from lowgraph.bench.result import Row, fits, rows_of
from lowgraph.driver import selection
from lowgraph.errors import DeviceUnavailable, LowgraphError
from lowgraph.train.result import write_json

__all__ = ["run"]

Say = Callable[[str], None]


def run(config: BenchConfig, say: Say) -> dict[str, Any]:
    """Measure, say and write; returns what the JSON file gets.

    Raises ConfigError, DeviceUnavailable; LowgraphError, after all is written, when an arm of
    lowgraph failed or does not compute what the rivals do. A rival's failure is its row's.
    """
    programs = checkout()
    if config.plot is not None:
        plot.require(config.plot)
    device, kind = _device(config.device)
    say(f"device: {device}")
    with_rivals = config.rivals and kind == "cuda"
    if kind == "host":
        say("rivals: none on the host device, for PyTorch on a CPU is no rival of a GPU's step; "
            "its times are no GPU's either")  # fmt: skip
    book = _Book(config, {**_origin(programs.parent), "device": device})
    limit = Limit(config.minutes)
    with tempfile.TemporaryDirectory(prefix="lowgraph-bench-") as folder:
        chosen = _cases(config, device, kind, programs, Path(folder), say)
        for group in _groups(chosen, config.at_once and with_rivals):
            _prepare(group, with_rivals)
            done = measure(
                group, programs, with_rivals=with_rivals, rounds=config.rounds,
                burst_ms=config.burst_ms, say=say, limit=limit,
            )  # fmt: skip
            for case, arms in zip(group, done, strict=True):
                book.add(case, arms)
    result = book.finish()
    say(table.text(book.rows, result["fits"]))
    if config.plot is not None:
        for file in plot.draw(config.plot, book.rows):
            say(f"picture: {file}")
    _judge(book)
    return result


class _Book:
    """The rows so far, and the file they are in: written after each case, so a kill keeps them."""

    def __init__(self, config: BenchConfig, origin: dict[str, Any]) -> None:
        self.rows: list[Row] = []
        self.left_out: list[str] = []
        self._file = config.json
        self._origin = origin

    def add(self, case: Case, arms: list[Measured]) -> None:
        """The arms of a case; none: it was left out for want of time."""
        if arms:
            self.rows += rows_of(case, arms)
        else:
            self.left_out.append(f"{case.row.id} ({case.config})")
        self._write(complete=False)

    def finish(self) -> dict[str, Any]:
        """Write the last time; returns what the file has."""
        return self._write(complete=not self.left_out)

    def _write(self, *, complete: bool) -> dict[str, Any]:
        found = {"rows": self.rows, "fits": fits(self.rows), "left_out": self.left_out}
        result = {**self._origin, "complete": complete, **found}
        if self._file is not None:
            write_json(self._file, result)
        return result


def _cases(
    config: BenchConfig, device: str, kind: str, programs: Path, folder: Path, say: Say
) -> list[Case]:
    found: list[Case] = []
    for row in config.chosen():
        if row.runs_on(kind):
            found += cases(row, device, kind, programs, folder / row.id)
        else:
            say(f"{row.id} {row.config}: left out, too large for the {kind} device")
    return found


def _groups(chosen: list[Case], at_once: bool) -> list[list[Case]]:
    """Cases whose rivals open together: at_once those of all, behind the cases that have none."""
    if not at_once:
        return [[case] for case in chosen]
    alone = [[case] for case in chosen if not case.row.rivals]
    together = [case for case in chosen if case.row.rivals]
    return alone + ([together] if together else [])


def _prepare(group: list[Case], with_rivals: bool) -> None:
    for case in group if with_rivals else ():
        folder = Path(case.spec["folder"])
        if not folder.exists():
            folder.mkdir()
            case.prepare(folder)


def _device(spec: str) -> tuple[str, str]:
    """The device as arms name it, and its kind. It is opened in their processes, not here."""
    if spec == "host":
        return "host", "host"
    reason = selection.probe()
    if spec == "auto" and reason is not None:
        return "host", "host"
    if reason is not None:
        raise DeviceUnavailable(f"device {spec}: {reason}; use --device host")
    return (spec if ":" in spec else "cuda:0"), "cuda"


def _origin(root: Path) -> dict[str, Any]:
    """gpu, driver, versions, commit, time: by the tool that stamps all recorded figures."""
    file = root / "tools" / "environment.py"
    spec = importlib.util.spec_from_file_location("lowgraph_environment", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, Any] = module.environment()
    return found


def _judge(book: _Book) -> None:
    rows = [row for row in book.rows if row["who"] == "lowgraph"]
    failed = [row for row in rows if row["error"]]
    wrong = [f"{row['id']} ({row['config']})" for row in rows if row["correct"] is False]
    if failed:
        raise LowgraphError(f"{failed[0]['id']}: lowgraph's arm failed: {failed[0]['error']}")
    if wrong:
        names = ", ".join(wrong)
        raise LowgraphError(f"lowgraph's losses are not the rivals' in {names}; see `losses`")
    if book.left_out:
        names = ", ".join(book.left_out)
        raise LowgraphError(f"no time was left for {names}; give fewer --rows or more --minutes")
