"""How far the host device's numbers are from a GPU's, kernel by kernel:

    python tools/kernel_difference.py run --device D F.npz
    python tools/kernel_difference.py compare HOST.npz GPU.npz [--json F] [--page F]

`run` runs every clean scenario of tests/check/bugs on seeded data and keeps what the kernels gave;
it refuses where a kernel of kernels_cu is launched by none. `compare` writes the worst difference
of each result over its largest element, the worst over the element itself (which sees small ones),
and whether the bits are equal, into benchmarks/results/h200/kernel_difference.json and the section
of docs/host-device.md, or the files named; environment.json beside GPU.npz tells the GPU and
commit.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from lowgraph.driver import Device, open_device  # noqa: E402
from lowgraph.kernels import Kernel, Library, launch  # noqa: E402
from lowgraph.kernels.signature import kernel_names  # noqa: E402
from tests.check.bugs.bench import Bench  # noqa: E402
from tests.check.bugs.bug import KERNELS  # noqa: E402
from tests.check.bugs.scenarios import SCENARIOS  # noqa: E402

RECORDED = ROOT / "benchmarks/results/h200/kernel_difference.json"
PAGE = ROOT / "docs/host-device.md"
BEGIN, END = "<!-- kernel-difference -->", "<!-- /kernel-difference -->"

# An element below this share of the largest counts as that share: a sum whose terms cancel is no
# closer to the true one than its terms are, and an element of zero has no relative difference.
LEAST_SHARE = 1e-3

Array = np.ndarray[Any, np.dtype[Any]]


@contextmanager
def launched() -> Iterator[set[str]]:
    """The names of the kernels that are launched meanwhile."""
    names: set[str] = set()

    def note(kernel: Kernel, *_: Any) -> None:
        names.add(kernel.name)

    before, launch.observer = launch.observer, note
    try:
        yield names
    finally:
        launch.observer = before


def without_a_row(names: set[str]) -> list[str]:
    """The kernels of kernels_cu that are not among those launched, by name."""
    ours = {name for path in KERNELS.glob("*.cu") for name in kernel_names(path)}
    return sorted(ours - names)


def results(device_spec: str) -> dict[str, Array]:
    """What every scenario gave, by "scenario: result".

    Raises SystemExit where a kernel of kernels_cu has not run.
    """
    with launched() as names:
        found = _all_results(open_device(device_spec))
    if lacking := ", ".join(without_a_row(names)):
        raise SystemExit(f"nothing launches {lacking}: write a scenario in tests/check/bugs")
    return found


def _all_results(device: Device) -> dict[str, Array]:
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
    """Rows of result, elements, worst difference over the largest element and over the element
    itself or LEAST_SHARE of the largest, and equal bits.

    Raises SystemExit where the two are of different scenarios.
    """
    shapes = [{(name, array.shape) for name, array in of.items()} for of in (host, gpu)]
    if unlike := sorted(name for name, _ in shapes[0] ^ shapes[1]):
        told = ", ".join(dict.fromkeys(unlike))
        raise SystemExit(f"run both devices on one commit; these are not in both alike: {told}")
    rows = []
    for name in sorted(host):
        one, other = host[name].astype(np.float64), gpu[name].astype(np.float64)
        scale = max(float(np.abs(other).max(initial=0.0)), 1e-30)
        apart, size = np.abs(one - other), np.maximum(np.abs(other), LEAST_SHARE * scale)
        rows.append(
            {
                "result": name,
                "elements": int(one.size),
                "worst_relative": float(apart.max(initial=0.0)) / scale,
                "worst_of_element": float((apart / size).max(initial=0.0)),
                "equal_bits": host[name].tobytes() == gpu[name].tobytes(),
            }
        )
    return rows


def section(content: dict[str, Any]) -> str:
    """What docs/host-device.md says of a file of `compare`, between its marks."""
    rows = content["rows"]
    equal = sum(row["equal_bits"] for row in rows)
    lines = [
        f"Against an {content['gpu']} (driver {content['driver']}) {equal} of {len(rows)} results"
        " have equal bits; the others, where an element below "
        f"{LEAST_SHARE:g} of the largest counts as that:",
        "",
        "| kernel's result | elements | worst difference / largest element | worst / the element |",
        "|---|---|---|---|",
    ]
    lines += [f"| {row['result']} | {row['elements']} | {row['worst_relative']:.1e}"
              f" | {row['worst_of_element']:.1e} |"
              for row in rows if not row["equal_bits"]]  # fmt: skip
    return "\n".join(lines)


def marked(page: str, text: str) -> str:
    """The page with the text between its marks. Raises ValueError without them."""
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    return f"{page[:begin]}\n{text}\n{page[end:]}"


def facts(gpu_file: Path) -> dict[str, Any]:
    """Where the GPU's numbers are from, as environment.json beside the file says.

    Raises SystemExit without that file.
    """
    beside = gpu_file.with_name("environment.json")
    if not beside.is_file():
        raise SystemExit(f"{beside} is missing: tools/on_device.sh writes it, with {gpu_file.name}")
    told: dict[str, Any] = json.loads(beside.read_text(encoding="utf-8"))
    return told


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
    compare.add_argument("--json", type=Path, default=RECORDED)
    compare.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    if options.command == "run":
        found = results(options.device)
        np.savez_compressed(options.file, **found)  # type: ignore[arg-type]
        print(f"{len(found)} results of {len(SCENARIOS)} scenarios -> {options.file}")
        return 0
    rows = differences(dict(np.load(options.host)), dict(np.load(options.gpu)))
    content = {**facts(options.gpu), "rows": rows}
    options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    page = options.page.read_text(encoding="utf-8")
    options.page.write_text(marked(page, section(content)), encoding="utf-8")
    print(section(content))
    return 0


if __name__ == "__main__":
    sys.exit(main())
