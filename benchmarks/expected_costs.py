"""The committed table of what steps cost: python benchmarks/expected_costs.py [--write].

Without --write the table is compared with what is counted now; exit 1 and a line for each figure
that differs. `lowgraph.bench.costs` says what is counted.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from lowgraph.bench.costs import BACKENDS, costs_of  # noqa: E402
from lowgraph.driver import Device, open_device  # noqa: E402
from lowgraph.models import MODELS  # noqa: E402
from lowgraph.precision import Precision  # noqa: E402
from lowgraph.train.files import replace_file  # noqa: E402

TABLE = ROOT / "benchmarks" / "expected_costs.json"


def cases() -> list[tuple[str, str, str, str]]:
    """Model, preset, precision and backend of the products, of every step that is counted."""
    known = [(model, preset) for model, entry in MODELS.items() for preset in entry.presets]
    kinds = [kind.value for kind in Precision]
    return [(*case, kind, backend) for case in known for kind in kinds for backend in BACKENDS]


def expected() -> dict[str, Any]:
    """The committed table: costs by "model preset precision backend"."""
    found: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return found


def differences(was: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """A line for each figure that differs, the kernels' among them."""
    flat = [{**costs, **costs["kernels"]} for costs in (was, now)]
    names = dict.fromkeys(name for costs in flat for name in costs if name != "kernels")
    pairs = [(name, flat[0].get(name, 0), flat[1].get(name, 0)) for name in names]
    return [f"{name}: {old} expected, {new} now" for name, old, new in pairs if old != new]


def counted(device: Device) -> dict[str, Any]:
    """The table as it is now."""
    return {" ".join(case): costs_of(device, *case) for case in cases()}


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="make what is counted the table")
    given = parser.parse_args()
    now = counted(open_device("host"))
    if given.write:
        replace_file(TABLE, (json.dumps(now, indent=1) + "\n").encode())
        return 0
    was = expected()
    lines = [f"{case}: {line}" for case in now if case in was
             for line in differences(was[case], now[case])]  # fmt: skip
    lines += [f"{case}: not in both tables" for case in was.keys() ^ now.keys()]
    print("\n".join(lines) or "as expected")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
