"""Where the time of a replayed step goes: each operation with its begin and duration.

    python benchmarks/step_trace.py [--rows B1,B2t,B2s,B3,B6] [--steps N]

The steps of `lowgraph bench`, as PyTorch's profiler sees them: microseconds, the median over the
steps. `begin` counts from the first operation of the step, `gap` from the end of what ran last
(below 0 where work overlaps). The profiler makes each operation of a graph a little longer and
parts them: the sum is above the step's time without it, which stands beside it.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from measure import options, report

from lowgraph import driver
from lowgraph.bench.busy import device_work
from lowgraph.bench.rows import ROWS
from lowgraph.bench.training import open_training
from lowgraph.errors import LowgraphError


def operations(events: Sequence[Mapping[str, Any]], steps: int) -> list[dict[str, Any]]:
    """The operations of one step, in their order of begin, each the median of `steps` of them."""
    work = device_work(events)
    count, rest = divmod(len(work), steps)
    if rest or not count:
        raise LowgraphError(
            f"{len(work)} operations were traced of {steps} steps: not as many each"
        )
    rows: dict[Any, list[tuple[float, float, Mapping[str, Any]]]] = {}
    for first in range(0, len(work), count):
        seen: dict[str, int] = {}
        for event in work[first : first + count]:
            # Work beside the chain begins now sooner, now later: by node, else by turn of its name.
            turn = seen[event["name"]] = seen.get(event["name"], 0) + 1
            key = event["args"].get("graph node id") or (event["name"], turn)
            begin = event["ts"] - work[first]["ts"]
            rows.setdefault(key, []).append((begin, event["dur"], event))
    found = [_row(seen) for seen in rows.values()]
    found.sort(key=lambda row: row["begin"])
    reached = 0.0
    for row in found:
        row["gap"] = round(row["begin"] - reached, 2)
        reached = max(reached, row["begin"] + row["us"])
    return found


def _row(seen: list[tuple[float, float, Mapping[str, Any]]]) -> dict[str, Any]:
    args = seen[0][2]["args"]
    return {
        "name": seen[0][2]["name"],
        "begin": round(statistics.median(begin for begin, _, _ in seen), 2),
        "us": round(statistics.median(us for _, us, _ in seen), 2),
        "grid": args.get("grid"), "block": args.get("block"), "stream": args.get("stream"),
    }  # fmt: skip


def traced_row(name: str, device: driver.Device, steps: int) -> dict[str, Any]:
    """The step of a row of `lowgraph bench`."""
    arm = open_training({"row": name, "precision": ROWS[name].precision, "device": device.spec})[
        "lowgraph"
    ]
    plain = [arm.burst(50)["wall_us"] for _ in range(5)]
    events, why = arm.events(steps)
    if not events:
        raise LowgraphError(why)
    found = operations(events, steps)
    return {
        "row": name, "us": round(statistics.median(plain), 2),
        "traced_us": round(max(row["begin"] + row["us"] for row in found), 2),
        "operations": found,
    }  # fmt: skip


def main() -> int:
    """Run the module's command line."""
    parser = options(__doc__ or "")
    parser.add_argument("--rows", default="B1,B2t,B2s,B3,B6", help="as `lowgraph bench` names them")
    parser.add_argument("--steps", type=int, default=20, help="steps to trace (20)")
    args = parser.parse_args()
    device = driver.open_device(args.device)
    report(
        device, [traced_row(name, device, args.steps) for name in args.rows.split(",")], args.json
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
