"""Record what a driver answers to every scenario:

    python tests/traces/record.py --device D --out F [--missing] [--only TEXT] [--jobs N]

Goes through lowgraph.driver alone, so it runs on a GPU and on the host device alike. The file is
one JSON object, gzipped where its name ends in .gz: gpu, driver, versions, left_out: [[key, why]],
scenarios: [{name, mode, calls}], where a call is [step, code, [capture status of streams s, t, u,
b], extra] and the code is "missing" where what the step speaks of was refused before.

Scenarios run in a process of their own, one after another; where a driver ends it, or stalls, or a
scenario waits for what it holds itself, that one is left out and the next process goes on behind.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.metadata
import json
import os
import platform
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cuda.bindings import driver as cu

from lowgraph.driver import Device, open_device
from tests.traces.catalogue import runs
from tests.traces.runner import run_here, run_in_turn
from tests.traces.scenario import Scenario
from tests.traces.world import attempt, module_image

HERE = Path(__file__).resolve().parent
LARGEST_BATCH = 100  # runs of one process
STALLED_SECONDS = 30  # a scenario takes milliseconds, or the seconds after which a hold lets go


def versions() -> dict[str, str]:
    """Versions that an answer may depend on."""
    return {
        "python": platform.python_version(),
        "cuda_bindings": importlib.metadata.version("cuda-bindings"),
    }


def load(path: Path) -> dict[str, Any]:
    """Read a recording, gzipped or plain."""
    data = path.read_bytes()
    trace: dict[str, Any] = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return trace


def recordings() -> dict[str, dict[str, Any]]:
    """The recordings that lie beside this file, by their names without endings."""
    return {path.name.partition(".json")[0]: load(path) for path in sorted(HERE.glob("*.json*"))}


def key_of(scenario: dict[str, Any]) -> str:
    """The key of a recorded run."""
    return f"{scenario['name']} [{scenario['mode']}]"


def record(
    device: Device, keys: list[str], jobs: int = 1, seconds: float = float("inf")
) -> dict[str, Any]:
    """Run the scenarios, in `jobs` processes at a time; return the recording's object.

    After `seconds` no more processes are begun: what was not run is missing, and can be run later.
    """
    found: list[dict[str, Any]] = []
    left_out: list[list[str]] = []
    alone = {key for key, (scenario, _) in runs().items() if scenario.kills or scenario.apart}
    together = [key for key in keys if key not in alone]
    size = max(1, min(LARGEST_BATCH, len(together) // jobs))
    batches = [together[first : first + size] for first in range(0, len(together), size)]
    batches += [[key] for key in keys if key in alone]
    end = time.monotonic() + seconds

    def run_batch(batch: list[str]) -> tuple[list[dict[str, Any]], list[list[str]]]:
        return run_in_turn(device.spec, batch) if time.monotonic() < end else ([], [])

    with ThreadPoolExecutor(jobs) as several:
        for answered, refused in several.map(run_batch, batches):
            found += answered
            left_out += refused
    order = {key: place for place, key in enumerate(runs())}
    return {
        "gpu": device.title,
        "driver": device.driver_version,
        "versions": versions(),
        "left_out": left_out,
        "scenarios": sorted(found, key=lambda scenario: order[key_of(scenario)]),
    }


def render(trace: dict[str, Any]) -> str:
    """The trace as JSON with one call a line, so that two recordings can be compared by diff."""
    head = {key: value for key, value in trace.items() if key != "scenarios"}
    lines = [json.dumps(head)[:-1] + ', "scenarios": [']
    for number, scenario in enumerate(trace["scenarios"]):
        name, mode = json.dumps(scenario["name"]), json.dumps(scenario["mode"])
        calls = ",\n  ".join(json.dumps(call) for call in scenario["calls"])
        comma = "," if number + 1 < len(trace["scenarios"]) else ""
        lines.append(f'{{"name": {name}, "mode": {mode}, "calls": [\n  {calls}]}}{comma}')
    return "\n".join([*lines, "]}", ""])


def _serve(device: Device) -> None:
    """Run the keys that standard input names, one a line; print each answer, one a line.

    Ends without more driver calls: a poisoned context may refuse to be torn down, and all that it
    answered is printed.
    """
    image = module_image(device)
    for line in sys.stdin:
        scenario, mode = runs()[line.strip()]
        watch = threading.Timer(STALLED_SECONDS, os._exit, [3])
        watch.daemon = True
        watch.start()
        answer = _answer(device, image, scenario, mode)
        watch.cancel()
        print(json.dumps(answer), flush=True)
        if "error" in answer:
            break  # the next one must not pay for it
    os._exit(0)


def _answer(device: Device, image: bytes, scenario: Scenario, mode: str) -> dict[str, Any]:
    try:
        answer = run_here(device, image, scenario, mode)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    code = attempt(cu.cuCtxSynchronize)[0]
    if code and not (scenario.kills or scenario.apart):
        return {"error": f"it poisons the context ({code}): say kills=True"}
    return answer


def _keys(options: argparse.Namespace) -> list[str]:
    known: set[str] = set()
    if options.missing:
        for trace in recordings().values():
            known |= {key_of(scenario) for scenario in trace["scenarios"]}
            known |= {key for key, _ in trace.get("left_out", [])}
    return [key for key in runs() if options.only in key and key not in known]


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto", help="auto, host, cuda or cuda:N")
    parser.add_argument("--out", type=Path, help="the trace file to write")
    parser.add_argument("--only", default="", help="only scenarios whose key contains this")
    parser.add_argument("--missing", action="store_true", help="only what no recording here has")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="begin no more processes after these"
    )
    parser.add_argument("--serve", action="store_true", help="run what standard input names")
    options = parser.parse_args()
    device = open_device(options.device)
    if options.serve:
        _serve(device)
    trace = record(device, _keys(options), options.jobs, options.seconds)
    text = render(trace)
    if options.out is None:
        sys.stdout.write(text)
    elif options.out.suffix == ".gz":
        options.out.write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        options.out.write_text(text, encoding="utf-8")
    for key, why in trace["left_out"]:
        print(f"left out: {key}: {why}", file=sys.stderr)
    print(f"{len(trace['scenarios'])} scenarios on {trace['gpu']}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
