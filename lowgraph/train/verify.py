"""The gates of a training step, run one after the other: `python -m lowgraph verify`.

    results = verify(device, plan, data, steps=8)
    assert all(gate.passed for gate in results)

A gate that cannot be judged, because the step has no graph or the device was lost, has failed: its
detail says why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lowgraph.driver import Device, open_device
from lowgraph.errors import GateFailed, LowgraphError
from lowgraph.memory import counted
from lowgraph.train.config import TrainConfig
from lowgraph.train.datasets import Dataset, check_data, early_plan, plan_for, read_data
from lowgraph.train.gates import (
    Gate,
    Subject,
    coverage,
    launches,
    moves,
    negative,
    positive,
    repeats,
)
from lowgraph.train.plan import Plan, model_of
from lowgraph.train.result import write_json

__all__ = ["GATES", "run", "verify"]

GATES = ("positive", "moves", "repeats", "launches", "negative", "coverage")
"""Names, in the order in which they are run and reported."""

Say = Callable[[str], None]


def verify(
    device: Device,
    plan: Plan,
    data: Dataset,
    *,
    steps: int = 8,
    say: Say = lambda text: None,
) -> list[Gate]:
    """Put the plan's training step to every gate; `say` is told each outcome as it is known.

    steps: of each arm. Raises what making the run raises (ConfigError, BuildError ...); what goes
    wrong in a gate is that gate's outcome.
    """
    check_data(plan, data)
    results = []
    with Subject(device, plan, data, steps) as subject:
        works: dict[str, Callable[[], Gate]] = {
            "positive": lambda: positive(subject),
            "moves": lambda: moves(subject),
            "repeats": lambda: repeats(subject),
            "launches": lambda: launches(subject),
            "negative": lambda: negative(device, plan, data, steps),
            "coverage": lambda: coverage(subject),
        }
        for name in GATES:
            gate = _judged(name, works[name])
            say(gate.text())
            results.append(gate)
    return results


def run(config: TrainConfig, say: Say) -> list[Gate]:
    """Verify what the trainer would run with `config`, whose `steps` are those of an arm.

    Writes `config.json` when it names a file. Raises GateFailed at the end if a gate failed,
    ConfigError, DeviceUnavailable or BuildError when there is nothing to put to the gates.
    """
    data = read_data(model_of(config), config.data)
    early_plan(config, data)
    device = open_device(config.device)
    plan, data = plan_for(config, device.kind, data)
    say(f"device: {device.spec}, {device.title} ({device.arch})")
    say(f"model: {plan.model} {plan.preset}, {counted(plan.schedule.steps, 'step')} an arm")
    results = verify(device, plan, data, steps=plan.schedule.steps, say=say)
    if config.json is not None:
        write_json(config.json, _figures(config, plan, device, results))
        say(f"wrote {config.json}")
    failed = [gate.name for gate in results if not gate.passed]
    if failed:
        raise GateFailed(f"{len(failed)} of {len(results)} gates failed: {', '.join(failed)}")
    return results


def _judged(name: str, work: Callable[[], Gate]) -> Gate:
    try:
        return work()
    except LowgraphError as error:
        return Gate(name, False, None, f"{type(error).__name__}: {error}")


def _figures(
    config: TrainConfig, plan: Plan, device: Device, results: list[Gate]
) -> dict[str, Any]:
    return {
        "device": device.spec,
        "device_title": device.title,
        "model": plan.model,
        "preset": plan.preset,
        "steps": plan.schedule.steps,
        "gates": [vars(gate) for gate in results],
    }
