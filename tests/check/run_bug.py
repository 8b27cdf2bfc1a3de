"""Run seeded bugs, and tell whether the results were right nevertheless.

    python tests/check/run_bug.py NAME... [--clean] [--device host|cuda] [--separate]
                                  [--times N] [--give-up SECONDS] [--json F]

NAME: of a bug; with --clean of a bug or a scenario, run with the kernels as they are. Several names
run one after another in this process; after a fault the context is lost, and the rest is `not run`.
--separate gives each buffer a driver allocation of its exact size in place of a pool's slice.
--json (or --out, where another program takes --json) writes {"device", "results"}: for each name
its result, `right`, `wrong`, `fault`, `gave up`, `not run` or `error`, a text, and seconds.
Exit code: 0 all right, 1 not all right, 3 gave up.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from lowgraph.driver import Device, open_device  # noqa: E402
from lowgraph.errors import DriverError, LowgraphError  # noqa: E402
from lowgraph.kernels import Library  # noqa: E402
from tests.check.bugs.bench import Bench  # noqa: E402
from tests.check.bugs.bug import Bug  # noqa: E402
from tests.check.bugs.scenarios import SCENARIOS  # noqa: E402
from tests.check.bugs.table import BY_NAME  # noqa: E402

GIVE_UP = 20.0  # seconds: no scenario that ends takes two


@dataclass
class Result:
    """What became of one name."""

    name: str
    result: str
    text: str = ""
    seconds: float = 0.0


class Report:
    """The results so far, written at the end or when the time is up."""

    def __init__(self, device: str, file: Path | None) -> None:
        self.device, self.file = device, file
        self.results: list[Result] = []

    def add(self, result: Result) -> None:
        """Note a result, and print it."""
        self.results.append(result)
        print(f"{result.name}: {result.result} ({result.text})", flush=True)

    def write(self) -> None:
        """Write the file, if one was asked for."""
        if self.file is not None:
            content = {"device": self.device, "results": [asdict(r) for r in self.results]}
            self.file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def find(name: str, clean: bool) -> tuple[Bug | None, str, str]:
    """Bug (None: sources as they are), scenario and fault of a name. Raises SystemExit."""
    bug = BY_NAME.get(name)
    if bug is not None:
        return (None, bug.scenario, "") if clean else (bug, bug.scenario, bug.fault)
    if clean and name in SCENARIOS:
        return None, name, ""
    raise SystemExit(f"no bug {name!r}: tests/check/bugs/table.py has them")


def run_one(
    name: str, device: Device, library: Library, folder: Path, args: argparse.Namespace
) -> tuple[str, str]:
    """Run one name `--times` times; result and text."""
    bug, scenario, fault = find(name, args.clean)
    # A finalizer that frees memory in between would order what the bug leaves unordered.
    gc.collect()
    gc.disable()
    try:
        troubles: list[str] = []
        for _ in range(args.times):
            bench = Bench(device, library, folder, bug, args.separate)
            checks = SCENARIOS[scenario](bench, fault)
            troubles += [check.trouble for check in checks if check.trouble]
            bench.close()
    except DriverError as error:
        return "fault", str(error).splitlines()[0]
    except LowgraphError as error:
        return "error", f"{type(error).__name__}: {error}"
    finally:
        gc.enable()
    return ("wrong", troubles[0]) if troubles else ("right", f"{args.times} times")


def run_all(report: Report, args: argparse.Namespace) -> None:
    """Run every name until one of them loses the context."""
    device = open_device(args.device)
    library, lost = Library(device), False
    with tempfile.TemporaryDirectory(prefix="lowgraph-bugs-") as folder:
        for name in args.names:
            if lost:
                report.add(Result(name, "not run", "the context was lost before"))
                continue
            watch = threading.Timer(args.give_up, give_up, (report, name, args.give_up))
            watch.daemon = True
            watch.start()
            begin = time.perf_counter()
            result, text = run_one(name, device, library, Path(folder), args)
            watch.cancel()
            report.add(Result(name, result, text, round(time.perf_counter() - begin, 3)))
            lost = result in ("fault", "error")


def give_up(report: Report, name: str, seconds: float) -> None:
    """End the process: nothing stops a kernel that does not end."""
    report.add(Result(name, "gave up", f"after {seconds:g} s", seconds))
    report.write()
    os._exit(3)


def main() -> int:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+")
    parser.add_argument("--clean", action="store_true")
    parser.add_argument("--device", default="host")
    parser.add_argument("--separate", action="store_true")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--give-up", type=float, default=GIVE_UP)
    parser.add_argument("--json", "--out", dest="out", type=Path)
    args = parser.parse_args()
    for name in args.names:
        find(name, args.clean)
    report = Report(args.device, args.out)
    run_all(report, args)
    report.write()
    return 0 if all(result.result == "right" for result in report.results) else 1


if __name__ == "__main__":
    sys.exit(main())
