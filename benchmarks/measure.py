"""What the benchmarks share: the device, repeated timing, and the JSON that they print."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from environment import environment  # noqa: E402

from lowgraph import driver  # noqa: E402

CHAIN = Path(__file__).parent / "chain.cu"


def options(text: str) -> argparse.ArgumentParser:
    """A parser with the options that all benchmarks take."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("--device", default="auto", help="host, cuda, cuda:N or auto (default)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the JSON there as well")
    return parser


def timed(act: Callable[[], Any], repeats: int) -> list[float]:
    """Seconds of each of `repeats` calls, after one that is not counted."""
    act()
    found = []
    for _ in range(repeats):
        begin = time.perf_counter()
        act()
        found.append(time.perf_counter() - begin)
    return found


def spread(seconds: list[float], scale: float = 1e6) -> dict[str, float]:
    """Median, least and most, in microseconds unless scaled otherwise."""
    figures = statistics.median(seconds), min(seconds), max(seconds)
    return dict(zip(("median", "min", "max"), (round(f * scale, 4) for f in figures), strict=True))


def report(device: driver.Device, rows: list[dict[str, Any]], file: Path | None) -> None:
    """Print one JSON object, and write it to the file if there is one."""
    origin = {"device": device.spec, "title": device.title, **environment()}
    text = json.dumps({**origin, "rows": rows}, indent=1)
    print(text)
    if file is not None:
        file.write_text(text + "\n", encoding="utf-8")


def time_parts(
    text: str,
    names: Collection[str],
    bench: Callable[[driver.Device, int, int], Any],
    rows_of: Callable[[Any, str], Iterable[dict[str, Any]]],
    *,
    rounds: int = 20,
) -> int:
    """The command line of a benchmark that has parts by name; returns the exit code.

    bench: made of the device, of calls a graph (or a timing) and of replays (or timings).
    """
    parser = options(text)
    parser.add_argument("--only", nargs="+", choices=names, default=list(names))
    repeats = "calls a graph, or a timing (default: 50)"
    parser.add_argument("--repeats", type=int, default=50, help=repeats)
    replays = f"replays, or timings (default: {rounds})"
    parser.add_argument("--rounds", type=int, default=rounds, help=replays)
    given = parser.parse_args()
    device = driver.open_device(given.device)
    made = bench(device, given.repeats, given.rounds)
    rows = [row for name in given.only for row in rows_of(made, name)]
    report(device, rows, given.json)
    return 0
