"""What the benchmarks share: the device, repeated timing, and the JSON that they print."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
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
