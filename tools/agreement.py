"""Do runs agree? python tools/agreement.py FILE [--steps N] [--devices cuda,host]

Trains nano on each device three times from one seed: graphed, graphed again, and without a graph.
The losses of one device must be bit-identical; between the devices the first ten may differ by
1e-3 relative (other instruction order, other exp and tanh). Writes one JSON object; exit code 1 if
something differs by more.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from itertools import combinations
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BETWEEN_DEVICES = 1e-3
COMPARED = 10


def losses(device: str, steps: int, *flags: str) -> list[float]:
    """The losses of one run of the main job, one a step, in nats."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "run.json")
        command = [sys.executable, str(ROOT / "examples/train_small.py"), "--device", device]
        command += ["--preset", "nano", "--steps", str(steps), "--json", str(file), *flags]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        run = json.loads(file.read_text(encoding="utf-8"))
    captures = 0 if "--no-graph" in flags else 1
    if not run["device"].startswith(device):
        raise SystemExit(f"{' '.join(command)}: ran on {run['device']}")
    if run["captures"] != captures or run["refusals"]:
        figures = f"{run['captures']} captures, {run['refusals']} refusals"
        raise SystemExit(f"{' '.join(command)}: {figures}")
    found: list[float] = run["losses"]
    return found


def compare(devices: list[str], steps: int) -> dict[str, Any]:
    """The object that FILE gets."""
    result: dict[str, Any] = {"preset": "nano", "steps": steps, "losses": {}, "worst_relative": {}}
    identical = {}
    for device in devices:
        first, again = losses(device, steps), losses(device, steps)
        eager = losses(device, steps, "--no-graph")
        identical[device] = {
            "same_seed_twice": first == again,
            "graph_and_no_graph": first == eager,
        }
        result["losses"][device] = first
    result["bit_identical"] = identical
    for a, b in combinations(devices, 2):
        apart = [
            abs(x - y) / abs(y)
            for x, y in zip(result["losses"][a], result["losses"][b], strict=True)
        ]
        result["worst_relative"][f"{a} against {b}"] = {
            f"first {COMPARED}": max(apart[:COMPARED]),
            f"all {steps}": max(apart),
        }
    alike = all(all(row.values()) for row in identical.values())
    worst = [rows[f"first {COMPARED}"] for rows in result["worst_relative"].values()]
    return {**result, "passed": alike and max(worst, default=0) <= BETWEEN_DEVICES}


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--devices", default="cuda,host", help="separated by commas")
    options = parser.parse_args()
    result = compare(options.devices.split(","), options.steps)
    options.file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({key: result[key] for key in ("bit_identical", "worst_relative", "passed")}))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
