"""README's picture and the table of docs/bench.md from a file of `python -m lowgraph bench --json`:

    python tools/bench_picture.py [FILE] [--out docs/pictures/bench.png]

FILE is benchmarks/results/h200/bench.json unless given. Prints the table in Markdown: a line a row,
microseconds of a step, a dash where an arm has no time. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from lowgraph.bench.plot import draw_overview  # noqa: E402
from lowgraph.bench.rows import ROWS, STRONGEST  # noqa: E402
from lowgraph.errors import ConfigError  # noqa: E402

COLUMNS = ("torch eager", "torch.compile reduce-overhead", "jax.jit", STRONGEST, "lowgraph")
JAX = "jax.jit with cuDNN attention"


def caption(found: dict[str, Any]) -> str:
    """What the figures are of, and where and when they were measured."""
    versions = found["versions"]
    named = ", ".join(f"{name} {versions[name]}" for name in ("torch", "jax") if name in versions)
    return (
        f"microseconds a step, median of the rounds with least and most; {found['gpu']}, {named}, "
        f"{found['time'][:10]}, commit {found['commit'][:10]}"
    )


def table(rows: list[dict[str, Any]]) -> str:
    """A Markdown table with a line for each row that is timed by the wall's clock."""
    lines = [
        f"| id | configuration | {' | '.join(COLUMNS)} | goal | nodes | idle |",
        f"|{'---|' * (len(COLUMNS) + 5)}",
    ]
    walls = [row for row in rows if row["clock"] == "wall"]
    for name, block in groupby(walls, key=lambda row: str(row["id"])):
        arms = {row["who"]: row for row in block}
        ours = arms["lowgraph"]
        goal = ROWS[name].goal_us
        cells = [name, ours["config"].split(":")[0] + f", {ours['wanted_precision']}"]
        cells += [_time(arms, who) for who in COLUMNS]
        cells += ["–" if goal is None else f"{goal:,.0f}", str(ours["nodes"])]
        cells += ["–" if ours["idle_share"] is None else f"{ours['idle_share']:.0%}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _time(arms: dict[str, dict[str, Any]], who: str) -> str:
    """An arm's median; of JAX's two the better one."""
    names = (who, JAX) if who == "jax.jit" else (who,)
    found = [arms[name]["us_median"] for name in names if name in arms]
    times = [time for time in found if time is not None]
    return f"{min(times):,.0f}" if times else "–"


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    default = ROOT / "benchmarks" / "results" / "h200" / "bench.json"
    parser.add_argument("file", nargs="?", type=Path, default=default)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures" / "bench.png")
    given = parser.parse_args()
    try:
        found = json.loads(given.file.read_text(encoding="utf-8"))
        draw_overview(given.out, found["rows"], caption(found))
    except FileNotFoundError:
        command = "tools/on_device.sh benchmarks/results/h200 --bench"
        print(f"{given.file} is not there; on a machine with a GPU run: {command}", file=sys.stderr)
        return 2
    except ConfigError as error:
        print(f"{given.file}: {error}", file=sys.stderr)
        return 2
    print(table(found["rows"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
