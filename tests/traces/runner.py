"""Runs scenarios: here, or in processes of their own, which a driver may end."""

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
MISSING = "missing"


def run_here(device: Device, image: bytes, scenario: Scenario, mode: str) -> dict[str, Any]:
    """Run in this process: {name, mode, calls: [[step, code, statuses, extra], ...]}.

    The code of a step is "missing" where what it speaks of was refused before.
    """
    world = World(device, image, mode)
    calls: list[list[Any]] = []
    try:
        for step in scenario.steps:
            code: int | str
            try:
                code, extra = perform(world, step)
            except (KeyError, IndexError):
                code, extra = MISSING, None
            calls.append([step, code, world.status(), extra])
    finally:
        world.close()
    return {"name": scenario.name, "mode": mode, "calls": calls}


def run_in_turn(device_spec: str, keys: list[str]) -> tuple[list[dict[str, Any]], list[list[str]]]:
    """Run those keys in processes of their own, a new one behind each that ended early.

    Returns the answers, and [key, why] of those that have none.
    """
    command = [sys.executable, str(RECORDER), "--device", device_spec, "--serve"]
    answers: list[dict[str, Any]] = []
    left_out: list[list[str]] = []
    waiting = keys
    while waiting:
        done = subprocess.run(
            command, input="\n".join(waiting), capture_output=True, text=True, check=False
        )
        told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        for key, answer in zip(waiting, told, strict=False):
            if "error" in answer:
                left_out.append([key, answer["error"]])
            else:
                answers.append(answer)
        waiting = waiting[len(told) :]
        if waiting and not (told and "error" in told[-1]):  # it ends behind an error of its own
            why = f"the process ended with {done.returncode}: {done.stderr[-200:].strip()}"
            left_out.append([waiting[0], why])
            waiting = waiting[1:]
    return answers, left_out


def run(device: Device, image: bytes, key: str) -> dict[str, Any]:
    """Run the scenario of that key, apart when it kills. Raises RuntimeError without an answer."""
    scenario, mode = runs()[key]
    if not scenario.kills:
        return run_here(device, image, scenario, mode)
    answers, left_out = run_in_turn(device.spec, [key])
    if left_out:
        raise RuntimeError(f"{key}: {left_out[0][1]}")
    return answers[0]
