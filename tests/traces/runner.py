"""Runs scenarios: here, or each in a process of its own when it poisons its context."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from lowgraph.driver import Device
from tests.traces.catalogue import runs
from tests.traces.scenario import Scenario
from tests.traces.verbs import perform
from tests.traces.world import World

RECORDER = Path(__file__).resolve().parent / "record.py"
SECONDS = 120  # a scenario takes milliseconds; a hang must not stall the recording


def run_here(device: Device, image: bytes, scenario: Scenario, mode: str) -> dict[str, Any]:
    """Run in this process: {name, mode, calls: [[step, code, statuses, extra], ...]}."""
    world = World(device, image, mode)
    calls: list[list[Any]] = []
    try:
        for step in scenario.steps:
            code, extra = perform(world, step)
            calls.append([step, code, world.status(), extra])
    finally:
        world.close()
    return {"name": scenario.name, "mode": mode, "calls": calls}


def run_apart(device_spec: str, scenario: Scenario, mode: str) -> dict[str, Any]:
    """Run in a process of its own and return what it answered."""
    command = [sys.executable, str(RECORDER), "--device", device_spec, "--one", scenario.key(mode)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{scenario.key(mode)}: exit {done.returncode}: {done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def run(device: Device, image: bytes, key: str) -> dict[str, Any]:
    """Run the scenario of that key, apart when it kills."""
    scenario, mode = runs()[key]
    if scenario.kills:
        return run_apart(device.spec, scenario, mode)
    return run_here(device, image, scenario, mode)
