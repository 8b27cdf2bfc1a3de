"""Running the benchmark: every case in turn, then the table, the file and the pictures."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lowgraph.bench import plot, table
from lowgraph.bench.cases import cases
from lowgraph.bench.config import BenchConfig, checkout
from lowgraph.bench.measure import measure
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
    rows: list[Row] = []
    for row in config.chosen():
        if not row.runs_on(kind):
            say(f"{row.id} {row.config}: left out, too large for the {kind} device")
            continue
        rows += _measured(config, row, device, kind, programs, with_rivals, say)
    grown = fits(rows)
    say(table.text(rows, grown))
    result = {**_origin(programs.parent), "device": device, "rows": rows, "fits": grown}
    if config.json is not None:
        write_json(config.json, result)
    if config.plot is not None:
        for file in plot.draw(config.plot, rows):
            say(f"picture: {file}")
    _judge(rows)
    return result


def _measured(
    config: BenchConfig, row: Any, device: str, kind: str, programs: Path, with_rivals: bool,
    say: Say,
) -> list[Row]:  # fmt: skip
    found: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="lowgraph-bench-") as name:
        folder = Path(name)
        for number, case in enumerate(cases(row, device, kind, programs, folder)):
            say(f"{row.id} {case.config}")
            if number == 0 and with_rivals:
                case.prepare(folder)
            arms = measure(
                case, programs, with_rivals=with_rivals, rounds=config.rounds,
                burst_ms=config.burst_ms, say=say,
            )  # fmt: skip
            found += rows_of(case, arms)
    return found


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


def _judge(rows: list[Row]) -> None:
    wrong = [row for row in rows if row["who"] == "lowgraph" and row["correct"] is False]
    failed = [row for row in rows if row["who"] == "lowgraph" and row["error"]]
    if failed:
        raise LowgraphError(f"{failed[0]['id']}: lowgraph's arm failed: {failed[0]['error']}")
    if wrong:
        names = ", ".join(f"{row['id']} ({row['config']})" for row in wrong)
        raise LowgraphError(f"lowgraph's losses are not the rivals' in {names}; see `losses`")
