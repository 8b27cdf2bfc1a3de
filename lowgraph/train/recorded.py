"""A model's training step with its graph, for commands that look at what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from lowgraph.driver import open_device
from lowgraph.train.config import TrainConfig
from lowgraph.train.datasets import early_plan, plan_for, read_data
from lowgraph.train.parts import Parts
from lowgraph.train.plan import Plan, model_of

__all__ = ["Recorded", "recorded_parts"]

_WARM_STEPS = 2  # the first primes, the second records and replays


class Recorded(NamedTuple):
    """A run behind its first two steps. device: as `--device` names it."""

    device: str
    plan: Plan
    parts: Parts


@contextmanager
def recorded_parts(config: TrainConfig, say: Callable[[str], None]) -> Iterator[Recorded]:
    """The parts of a run whose step has been recorded, freed when the block ends.

    Says the device and the model. Raises LowgraphError, for bad flags before any device work.
    """
    data = read_data(model_of(config), config.data)
    early_plan(config, data)
    device = open_device(config.device)
    plan, data = plan_for(config, device.kind, data)
    say(f"device: {device.spec}, {device.title} ({device.arch})")
    say(f"model: {plan.model} {plan.preset}")
    parts = Parts(device, plan, data, graph=True, ring_slots=_WARM_STEPS)
    try:
        for _ in range(_WARM_STEPS):
            parts.advance()
        yield Recorded(device.spec, plan, parts)
    finally:
        parts.close()
