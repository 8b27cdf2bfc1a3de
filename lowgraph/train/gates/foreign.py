"""A foreign optimizer that moves the parameters: a graph with a pin, with a check, with neither.

It is the negative gate's experiment, run in a process of its own (`main`): the graph may read what
it must not, and a device that says so is lost to its process.

The optimizer is not in the step. It keeps the parameters in two buffers by turns, as optimizers do
that write their update out of place: after a step it writes the new values into the other buffer,
which from then on is the model's. An eager step follows. A graph has the address of the buffer that
it was recorded with, which in every second step is the stale one.
"""

from __future__ import annotations

import enum
import json
import pickle
import sys
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowgraph import driver, ops
from lowgraph.capture import CopyIn, GraphStep, Input, Phase
from lowgraph.driver import Device, open_device
from lowgraph.errors import ContextPoisoned, InputMoved, LowgraphError
from lowgraph.memory import Slice, download
from lowgraph.train.datasets import Dataset
from lowgraph.train.gates.subject import same_bits
from lowgraph.train.parts import Parts
from lowgraph.train.plan import Plan

__all__ = ["ForeignRun", "Protected", "Protection", "Unprotected", "main", "protected",
           "unprotected"]  # fmt: skip

Values = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Protected:
    """What pin and check make of the moved parameters.

    wrong: parameters that differ from the eager run's with a copy-in pin; 0 is right.
    named: what the check said of the stale pointer, "" when it let it pass.
    """

    wrong: int
    named: str


@dataclass(frozen=True)
class Unprotected:
    """What became of the run with neither pin nor check.

    outcome: "diverged", "died", or "same" as the eager run, which proves nothing.
    wrong: parameters that differ from the eager run's at the end. detail: how it went.
    """

    outcome: str
    wrong: int
    detail: str


class Protection(enum.Enum):
    """How the step is told of the moves: eager steps, a copy-in pin, a checked input, not."""

    EAGER = enum.auto()
    COPY_IN = enum.auto()
    INPUT = enum.auto()
    NONE = enum.auto()


class ForeignRun:
    """A run whose parameters lie in two buffers by turns.

    With COPY_IN the step computes with a third one, which is the pin's master.
    """

    def __init__(self, device: Device, plan: Plan, data: Dataset, protection: Protection) -> None:
        self.parts = Parts(device, plan, data, graph=False, ring_slots=2)
        self.model = self.parts.model
        self._spare = self.parts.another_model(plan)
        self._follows = protection is not Protection.COPY_IN
        declared: dict[str, Any] = {}
        # A bfloat16 shadow moves with its parameters.
        moved = {"parameters": self.current}
        if self.model.shadow is not None:
            moved["shadow"] = self._shadow
        if protection is Protection.INPUT:
            declared["inputs"] = [Input(name, where) for name, where in moved.items()]
        if protection is Protection.COPY_IN:
            master = self.parts.body.model = self.parts.another_model(plan)
            declared["pins"] = [CopyIn(name, where) for name, where in moved.items()]
            masters = [arena for arena in (master.parameters, master.shadow) if arena is not None]
            for pin, arena in zip(declared["pins"], masters, strict=True):
                pin.master = arena.flat
        self.parts.body.optimizer = None
        self._computed = self.parts.body.model  # whose gradients the last step wrote
        library, keeps = self.parts.library, self.parts.optimizer.state_names
        self._kernel: Any = ops.AdamW(library) if keeps else ops.Sgd(library)
        self.graph_step = GraphStep(
            self.parts.body,
            device=device,
            pool=self.parts.pool,
            library=self.parts.library,
            stream=self.parts.stream,
            label="step of a foreign optimizer",
            graph=protection is not Protection.EAGER,
            **declared,
        )

    def current(self) -> Slice:
        """The buffer that the parameters are in now."""
        return self.model.parameters.flat

    def recorded(self) -> Slice:
        """The buffer that the step was last launched or recorded with."""
        return self._computed.parameters.flat

    def run(self, steps: int) -> Values:
        """Steps, each with the optimizer's move behind it; the parameters at the end.

        Raises LowgraphError when a graph was asked for and was not made.
        """
        for _ in range(steps):
            if self.graph_step.phase is not Phase.READY:
                self._computed = self.parts.body.model
            self.parts.advance(self.graph_step)
            self.move()
        values = self._parameters()
        if self.graph_step.phase not in (Phase.READY, Phase.DISABLED):
            raise LowgraphError(f"no graph: {self.graph_step.report().why_no_graph}")
        return values

    def move(self) -> None:
        """Write the update out of place; the parameters are where it was written to."""
        parts, old, new = self.parts, self.model, self._spare
        source, target = old.parameters.flat, new.parameters.flat
        driver.memory.copy_dtod_async(target.address, source.address, source.nbytes, parts.stream)
        gradients = self._computed.gradients if parts.total is None else parts.total.gradients
        kept = [parts.optimizer.state[name].flat for name in parts.optimizer.state_names]
        known = parts.norm.stats, parts.control, old.decayed_elements, source.elements
        self._kernel.step(parts.stream, target, *kept, gradients.flat, *known)
        new.refresh_shadow(parts.stream)
        self.model, self._spare = new, old
        if self._follows:
            parts.body.model = new

    def _shadow(self) -> Slice:
        """The same of the shadow, where there is one."""
        shadow = self.model.shadow
        assert shadow is not None
        return shadow.flat

    def close(self) -> None:
        """Free everything."""
        self.graph_step.close()
        self.parts.close()

    def _parameters(self) -> Values:
        """The present parameters in one row, without padding; waits for the steps so far."""
        arena = self.model.parameters
        flat = download(arena.flat, self.parts.stream)
        places = zip(arena.layout.offsets, arena.values(), strict=True)
        return np.concatenate([flat[at : at + piece.elements] for at, piece in places])


def eager(device: Device, plan: Plan, data: Dataset, steps: int) -> Values:
    """The parameters after steps that are launched kernel by kernel: what is right."""
    return _finished(ForeignRun(device, plan, data, Protection.EAGER), steps)


def protected(device: Device, plan: Plan, data: Dataset, steps: int, right: Values) -> Protected:
    """Run it by a graph with a pin, then by a graph with a checked input."""
    pinned = _finished(ForeignRun(device, plan, data, Protection.COPY_IN), steps)
    run = ForeignRun(device, plan, data, Protection.INPUT)
    named = ""
    try:
        run.run(steps)
    except InputMoved as error:
        named = str(error)
    run.close()
    return Protected(_wrong(pinned, right), named)


def unprotected(
    device: Device, plan: Plan, data: Dataset, steps: int, right: Values
) -> Unprotected:
    """Run it by a graph that nobody tells of the moves."""
    run = ForeignRun(device, plan, data, Protection.NONE)
    try:
        values = run.run(steps)
    except ContextPoisoned as error:
        return Unprotected("died", 0, str(error))
    run.close()
    wrong = _wrong(values, right)
    said = f"{wrong} of {right.size} parameters differ from the eager run's after {steps} steps"
    if not wrong:
        return Unprotected("same", 0, said)
    distance = float(np.linalg.norm(values - right) / np.linalg.norm(right))
    return Unprotected("diverged", wrong, f"{said}, by {distance:.2g} of its norm")


def main() -> None:
    """Read (device, plan, data, steps) from stdin; write both findings to stdout, a line each.

    The first line is out before the run that may take the process with it.
    """
    spec, plan, data, steps = pickle.load(sys.stdin.buffer)  # from our own parent process
    device = open_device(spec)
    right = eager(device, plan, data, steps)
    print(json.dumps(asdict(protected(device, plan, data, steps, right))), flush=True)
    print(json.dumps(asdict(unprotected(device, plan, data, steps, right))), flush=True)


def _finished(run: ForeignRun, steps: int) -> Values:
    values = run.run(steps)
    run.close()
    return values


def _wrong(values: Values, right: Values) -> int:
    return int((~same_bits(values, right)).sum())


if __name__ == "__main__":
    main()
