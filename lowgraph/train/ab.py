"""A/B: the same steps as one graph and kernel by kernel, measured by one instrument.

    python -m lowgraph ab --model charlm --preset small --steps 500 --json ab.json --plot ab.png

Two runs of one Trainer class in one process, one after the other, from the same weights over the
same batches; each is timed by events on the device's own clock. The two losses of each step, and
the parameters at the end, are compared bit for bit.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lowgraph._version import VERSION
from lowgraph.driver import Device, open_device
from lowgraph.errors import ConfigError, GateFailed
from lowgraph.memory import counted
from lowgraph.train import plot
from lowgraph.train.config import TrainConfig
from lowgraph.train.datasets import Dataset, early_plan, plan_for, read_data
from lowgraph.train.loop import Trainer
from lowgraph.train.plan import Plan, model_of
from lowgraph.train.result import finite, write_json
from lowgraph.train.start import prepare_outputs
from lowgraph.train.step_log import Lap

__all__ = ["AB", "Arm", "Difference", "measure", "run"]

_WARM_AFTER = 49  # the mean is that of the steps 50 and later
_FEWEST_STEPS = 4  # priming, recording, and two that are timed
Parameters = dict[str, npt.NDArray[np.float32]]


@dataclass(frozen=True)
class Arm:
    """One run.

    Attributes
    ----------
    losses: of each step, in nats.
    step_us: mean of the warm steps, on the device's clock. lap_us: of each lap of them, to see how
        far it moves about.
    launches_per_step: driver launches of one warm step. library_calls_per_step: library calls
        beside those, where it is not known how many kernels they launch: ungraphed on a GPU.
    nodes: of the graph; 0 without one. captures, refusals: of the step.
    why_no_graph: empty with one.
    """

    losses: list[float]
    step_us: float
    lap_us: list[float]
    launches_per_step: int | None
    library_calls_per_step: int | None
    nodes: int
    captures: int
    refusals: int
    why_no_graph: str


@dataclass(frozen=True)
class Difference:
    """The first step whose losses differ, the first being 1, and the two losses."""

    step: int
    graphed: float
    ungraphed: float


@dataclass(frozen=True)
class AB:
    """Both arms and what became of the comparison.

    Attributes
    ----------
    warm_after: steps that are not timed: half of the run, 49 at most.
    first_difference: None when the losses of all steps are the same bits.
    parameters_differ: names of those that are not the same bits at the end.
    """

    graphed: Arm
    ungraphed: Arm
    warm_after: int
    first_difference: Difference | None
    parameters_differ: list[str]

    @property
    def speedup(self) -> float:
        """How many times faster the graphed step is."""
        return self.ungraphed.step_us / self.graphed.step_us

    def faults(self) -> list[str]:
        """Why it is no A/B of one function in two ways; empty when it is."""
        found = []
        if self.graphed.captures == 0:
            found.append(f"the graphed arm has no graph: {self.graphed.why_no_graph}")
        first = self.first_difference
        if first is not None:
            found.append(
                f"the losses differ from step {first.step} on: {first.graphed!r} graphed, "
                f"{first.ungraphed!r} not"
            )
        if self.parameters_differ:
            found.append(f"the final parameters differ: {', '.join(self.parameters_differ[:5])}")
        return found


def measure(device: Device, config: TrainConfig, plan: Plan, data: Dataset) -> AB:
    """Run both arms. Raises ConfigError for fewer than four steps, and what a Trainer raises.

    A Ctrl-C in either arm ends the whole: KeyboardInterrupt.
    """
    steps = plan.schedule.steps
    if steps < _FEWEST_STEPS:
        raise ConfigError(
            f"--steps must be at least {_FEWEST_STEPS}, got {steps}: the first step primes, the "
            "second records, and half of them are to be timed"
        )
    warm_after = min(_WARM_AFTER, steps // 2)
    plan = replace(plan, log_every=warm_after)
    graphed, after = _arm(device, replace(config, graph=True), plan, data, warm_after)
    ungraphed, then = _arm(device, replace(config, graph=False), plan, data, warm_after)
    return AB(
        graphed,
        ungraphed,
        warm_after,
        _first_difference(graphed.losses, ungraphed.losses),
        [name for name in after if not _same_bits(after[name], then[name])],
    )


def run(config: TrainConfig, say: Any) -> AB:
    """Measure what the trainer would run with `config`, and write `config.json` and `config.plot`.

    Raises GateFailed at the end, after the files are written, when the arms are not the same
    function; ConfigError, DeviceUnavailable or BuildError when there is nothing to measure.
    """
    if config.plot is not None:
        plot.require(config.plot)
    data = read_data(model_of(config), config.data)
    early_plan(config, data)
    prepare_outputs(config, say)
    device = open_device(config.device)
    plan, data = plan_for(config, device.kind, data)
    say(f"device: {device.spec}, {device.title} ({device.arch})")
    say(f"data: {data.describe()}")
    say(f"model: {plan.model} {plan.preset}, {counted(plan.schedule.steps, 'step')} an arm")
    found = measure(device, config, plan, data)
    for line in _lines(found):
        say(line)
    if config.json is not None:
        write_json(config.json, finite(_figures(found, device, plan, data)))
        say(f"figures: {config.json}")
    if config.plot is not None:
        _draw(config, found, data)
        say(f"plot: {config.plot}")
    faults = found.faults()
    if faults:
        raise GateFailed("; ".join(faults))
    return found


def _arm(
    device: Device, config: TrainConfig, plan: Plan, data: Dataset, warm_after: int
) -> tuple[Arm, Parameters]:
    laps: list[Lap] = []
    with Trainer(
        device, config, plan, data, on_lap=lambda trainer, lap: laps.append(lap)
    ) as trainer:
        trainer.train()
        if trainer.interrupted:
            raise KeyboardInterrupt
        parameters = trainer.checkpoint().parameters
        report = trainer.parts.graph_step.report()
    warm = [lap for lap in laps if lap.first >= warm_after]
    steps = sum(len(lap.losses) for lap in warm)
    graphed = report.captures > 0
    arm = Arm(
        losses=trainer.losses,
        step_us=1000 * sum(lap.ms * len(lap.losses) for lap in warm) / steps,
        lap_us=[1000 * lap.ms for lap in warm],
        launches_per_step=report.launches_replay_step if graphed else report.launches_eager_step,
        library_calls_per_step=0 if graphed else report.library_calls_eager_step,
        nodes=report.nodes,
        captures=report.captures,
        refusals=report.refusals,
        why_no_graph="" if graphed else str(report.why_no_graph),
    )
    return arm, parameters


def _first_difference(graphed: list[float], ungraphed: list[float]) -> Difference | None:
    for step, (one, other) in enumerate(zip(graphed, ungraphed, strict=True), 1):
        if not _same_bits(np.array(one), np.array(other)):
            return Difference(step, one, other)
    return None


def _same_bits(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    """Also of NaN, which is not equal to itself, and of zeros of two signs."""
    return one.tobytes() == other.tobytes()


def _lines(found: AB) -> list[str]:
    lines = [f"means of the steps after the first {found.warm_after}, on the device's clock:"]
    for name, arm in (("graphed", found.graphed), ("ungraphed", found.ungraphed)):
        calls = arm.library_calls_per_step
        beside = f" and {calls} library calls" if calls else ""
        lines.append(
            f"{name:9}  {arm.step_us:10.1f} us/step  (laps {min(arm.lap_us):.1f} to "
            f"{max(arm.lap_us):.1f})  {arm.launches_per_step} launches{beside}  "
            f"loss {arm.losses[0]:.4f} to {arm.losses[-1]:.4f}"
        )
    lines.append(f"graphed is {found.speedup:.2f} times as fast")
    if not found.faults():
        steps = len(found.graphed.losses)
        lines.append(f"the losses of all {steps} steps and the final parameters are the same bits")
    return lines


def _figures(found: AB, device: Device, plan: Plan, data: Dataset) -> dict[str, Any]:
    return {
        "device": device.spec,
        "device_title": device.title,
        "arch": device.arch,
        "version": VERSION,
        "context": plan.shape.context,
        "data": data.source,
        "data_sha256": data.sha256,
        **plan.values(),
        **asdict(found),
        "losses_equal": found.first_difference is None,
        "parameters_equal": not found.parameters_differ,
        "speedup": found.speedup,
    }


def _draw(config: TrainConfig, found: AB, data: Dataset) -> None:
    assert config.plot is not None
    losses = {
        f"{name}, {arm.step_us:.0f} us a step": arm.losses
        for name, arm in (("graphed", found.graphed), ("ungraphed", found.ungraphed))
    }
    plot.compare(config.plot, losses, unit=data.unit)
