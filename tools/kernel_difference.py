"""How far the host device's numbers are from a GPU's, kernel by kernel:

    python tools/kernel_difference.py run --device D F.npz
    python tools/kernel_difference.py compare HOST.npz GPU.npz [--page] [--json F]

`run` runs every clean scenario of tests/check/bugs, one a kernel, on seeded data and keeps what the
kernels gave. `compare` prints the worst difference of each result over its largest element, and
whether the bits are equal; --page prints the table of docs/host-device.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from lowgraph.driver import open_device  # noqa: E402
from lowgraph.kernels import Library  # noqa: E402
from tests.check.bugs.bench import Bench  # noqa: E402
from tests.check.bugs.scenarios import SCENARIOS  # noqa: E402

Array = np.ndarray[Any, np.dtype[Any]]


def results(device_spec: str) -> dict[str, Array]:
    """What every scenario gave, by "scenario: result"."""
    device = open_device(device_spec)
    library = Library(device)
    found: dict[str, Array] = {}
    for name, scenario in SCENARIOS.items():
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(device, library, Path(folder), None, separate=False)
            try:
                for check in scenario(bench, ""):
                    found[f"{name}: {check.what}"] = np.asarray(check.got)
            finally:
                bench.close()
    return found


def differences(host: dict[str, Array], gpu: dict[str, Array]) -> list[dict[str, Any]]:
    """Rows of result, elements, worst difference over the largest element, and equal bits."""
    rows = []
    for name in sorted(host.keys() & gpu.keys()):
        one, other = host[name].astype(np.float64), gpu[name].astype(np.float64)
        scale = max(float(np.abs(other).max(initial=0.0)), 1e-30)
        worst = float(np.abs(one - other).max(initial=0.0)) / scale
        rows.append(
            {
                "result": name,
                "elements": int(one.size),
                "worst_relative": worst,
                "equal_bits": host[name].tobytes() == gpu[name].tobytes(),
            }
        )
    return rows


def page(rows: list[dict[str, Any]]) -> str:
    """The table, as Markdown."""
    lines = ["| kernel's result | elements | worst difference / largest element |", "|---|---|---|"]
    for row in rows:
        told = "equal bits" if row["equal_bits"] else f"{row['worst_relative']:.1e}"
        lines.append(f"| {row['result']} | {row['elements']} | {told} |")
    return "\n".join(lines)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("--device", default="auto", help="auto, host, cuda or cuda:N")
    run.add_argument("file", type=Path)
    compare = commands.add_parser("compare")
    compare.add_argument("host", type=Path)
    compare.add_argument("gpu", type=Path)
    compare.add_argument("--page", action="store_true", help="print the table for the docs")
    compare.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.command == "run":
        found = results(options.device)
        np.savez_compressed(options.file, **found)  # type: ignore[arg-type]
        print(f"{len(found)} results of {len(SCENARIOS)} scenarios -> {options.file}")
        return 0
    rows = differences(dict(np.load(options.host)), dict(np.load(options.gpu)))
    if options.json:
        options.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")
    print(page(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
