"""docs/host-device.md's cost of the check build, from what was measured.

python benchmarks/host_device.py --only check --json benchmarks/results/host/check_cost.json
python tools/check_cost.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT / "benchmarks/results/host/check_cost.json"
PAGE = ROOT / "docs/host-device.md"
BEGIN, END = "<!-- check-cost -->\n", "<!-- /check-cost -->"
TITLES = {
    "step of nano, plain, one worker": "training step, preset `nano`, plain build, one worker",
    "step of nano, checked": "the same step, checked",
    "check of two steps of nano and an evaluation":
        "`check` of two steps of `nano` and an evaluation, a whole process, kernels in the cache",
}  # fmt: skip
SECONDS = {"ms": 1e-3, "s": 1.0}


def section(content: dict[str, Any]) -> str:
    """The table, and how many times longer a checked step takes."""
    rows = {row["what"]: row for row in content["rows"]}
    lines = ["| what | wall | processor |", "|---|---|---|"]
    lines += [f"| {title} | {told(rows[what])} |" for what, title in TITLES.items()]
    plain, checked, _ = (least(rows[what], "cpu") for what in TITLES)
    when, commit = content["time"][:10], content["commit"][:7]
    told_by = f"a checked step takes {checked / plain:.0f} times the processor time of a plain one"
    return "\n".join([*lines, "", f"Measured {when} at {commit}: {told_by}."])


def least(row: dict[str, Any], kind: str) -> float:
    """Seconds of a row's quickest round, or of its only one."""
    return float(row.get(f"{kind}_min", row[kind])) * SECONDS[row["unit"]]


def told(row: dict[str, Any]) -> str:
    """The row's two cells, in seconds."""
    return " | ".join(f"{least(row, kind):.2g} s" for kind in ("wall", "cpu"))


def marked(page: str, text: str) -> str:
    """The page with `text` between its two marks."""
    head, rest = page.split(BEGIN)
    return head + BEGIN + text + "\n" + END + rest.split(END)[1]


def main() -> None:
    content = json.loads(RECORDED.read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(marked(page, section(content)), encoding="utf-8")


if __name__ == "__main__":
    main()
