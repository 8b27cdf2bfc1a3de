"""Record what a driver answers to every scenario: python tests/traces/record.py --device D --out F.

Goes through lowgraph.driver alone, so it runs on a GPU and on the host device alike. The file is
one JSON object: gpu, driver, versions, scenarios: [{name, mode, calls}], where a call is
[step, code, [capture status of streams s, t, u, b], extra].
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from lowgraph.driver import Device, open_device
from tests.traces.catalogue import runs
from tests.traces.runner import run, run_here
from tests.traces.world import module_image

STALLED_SECONDS = 150  # more than runner.SECONDS


def versions() -> dict[str, str]:
    """Versions that an answer may depend on."""
    return {
        "python": platform.python_version(),
        "cuda_bindings": importlib.metadata.version("cuda-bindings"),
    }


def _stalled(key: str) -> None:
    """End the process: a driver call that never returns cannot be interrupted otherwise."""
    print(f"stalled: {key}", file=sys.stderr, flush=True)
    os._exit(3)


def record(device: Device, keys: list[str]) -> dict[str, Any]:
    """Run the scenarios; return the trace file's object, without those whose process died."""
    image = module_image(device)
    found = []
    for key in keys:
        watch = threading.Timer(STALLED_SECONDS, _stalled, [key])
        watch.daemon = True
        watch.start()
        try:
            found.append(run(device, image, key))
        except RuntimeError as error:  # its process died: a scenario that cannot be recorded
            print(f"left out: {error}", file=sys.stderr, flush=True)
        watch.cancel()
    return {
        "gpu": device.title,
        "driver": device.driver_version,
        "versions": versions(),
        "scenarios": found,
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


def _run_one(device: Device, key: str) -> None:
    """Print one run's answer, the process being its own; then leave without more driver calls."""
    scenario, mode = runs()[key]
    print(json.dumps(run_here(device, module_image(device), scenario, mode)), flush=True)
    # A poisoned context may refuse to be torn down; what it answered is already printed.
    os._exit(0)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto", help="auto, host, cuda or cuda:N")
    parser.add_argument("--out", type=Path, help="the trace file to write")
    parser.add_argument("--only", default="", help="only scenarios whose key contains this")
    parser.add_argument("--one", help="run this key in this process and print its answer")
    options = parser.parse_args()
    device = open_device(options.device)
    if options.one:
        _run_one(device, options.one)
    trace = record(device, [key for key in runs() if options.only in key])
    text = render(trace)
    if options.out is None:
        sys.stdout.write(text)
    else:
        options.out.write_text(text, encoding="utf-8")
        print(f"{len(trace['scenarios'])} scenarios on {trace['gpu']} -> {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
