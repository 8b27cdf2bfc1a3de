"""Subject: a training step under test, its state in snapshots, and its two arms.

Both arms run in the same buffers from the same snapshot, so that neither an address nor an
alignment can make a difference that is not the graph's.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from lowgraph import driver
from lowgraph.capture import Phase
from lowgraph.driver import Device
from lowgraph.errors import ContextPoisoned, LowgraphError
from lowgraph.memory import Arena, Slice, download, upload
from lowgraph.ops.control import read_control
from lowgraph.train.datasets import Dataset
from lowgraph.train.parts import Parts
from lowgraph.train.plan import Plan

__all__ = ["Snapshot", "Subject"]

Snapshot = dict[str, npt.NDArray[Any]]
"""Content of the persistent buffers, by the name of their slices; arenas whole."""

_WARM_STEPS = 2  # the first primes, the second records


class Subject:
    """Everything of a run, made as the trainer makes it. Close it, or use it in a `with` block.

    Attributes
    ----------
    parts: what the run has on its device. steps: steps of an arm.
    initial: the snapshot that every arm starts from, before the first step.
    problem: why there is no graph, "" when there is one.
    """

    def __init__(self, device: Device, plan: Plan, data: Dataset, steps: int) -> None:
        self.device = device
        self.steps = steps
        self.parts = Parts(device, plan, data, graph=True, ring_slots=_WARM_STEPS)
        try:
            self.initial = self.snapshot()
            for _ in range(_WARM_STEPS):
                self.parts.advance()
            self.sync()
        except BaseException:
            self.parts.close()
            raise
        step = self.parts.graph_step
        self.problem = "" if step.phase is Phase.READY else step.report().why_no_graph

    # ---- state ----

    @property
    def arenas(self) -> tuple[Arena, ...]:
        """Gradients, parameters and optimizer state, in the order in which a step writes them."""
        parts = self.parts
        return *self.gradients, parts.model.parameters, *parts.optimizer.state.values()

    @property
    def gradients(self) -> tuple[Arena, ...]:
        """Those of a pass, and their sum over micro-batches if there is one."""
        own, total = self.parts.model.gradients, self.parts.total
        return (own,) if total is None else (own, total.gradients)

    def snapshot(self) -> Snapshot:
        """Download the persistent state; waits for the steps issued so far."""
        return {piece.name: download(piece, self.parts.stream) for piece in self._wholes()}

    def restore(self, snapshot: Snapshot) -> None:
        """Upload a snapshot, behind the steps issued so far; the next step is the one behind it."""
        for piece in self._wholes():
            upload(piece, snapshot[piece.name], self.parts.stream)
        self.parts.model.refresh_shadow(self.parts.stream)
        self.parts.steps_done = read_control(snapshot[self.parts.control.name])["step"]
        self.parts.feeds.train.begin(self.parts.steps_done + 1)

    def tensors(self, snapshot: Snapshot) -> Iterator[tuple[Slice, npt.NDArray[Any]]]:
        """Each tensor of a snapshot with its slice; padding between tensors is left out."""
        for arena in self.arenas:
            flat = snapshot[arena.flat.name]
            for offset, piece in zip(arena.layout.offsets, arena.values(), strict=True):
                yield piece, flat[offset : offset + piece.elements]
        control = self.parts.control
        yield control, snapshot[control.name]

    def _wholes(self) -> list[Slice]:
        return [*(arena.flat for arena in self.arenas), self.parts.control]

    # ---- arms ----

    def graphed(self, steps: int) -> None:
        """Run steps as the trainer does, each of which has to be a replay.

        Raises LowgraphError when one was not: there is no graph then to be judged.
        """
        step = self.parts.graph_step
        before = step.report().replays
        for _ in range(steps):
            self.parts.advance()
        replays = step.report().replays - before
        if replays != steps:
            why = self.problem or step.report().why_no_graph
            raise LowgraphError(f"{replays} of {steps} steps were replays: {why}")

    def eager(self, steps: int) -> None:
        """Run steps launch by launch, beside the graph."""
        for _ in range(steps):
            self.parts.advance_eagerly()

    def after_graphed(self, steps: int, start: Snapshot | None = None) -> Snapshot:
        """The state `steps` replays behind `start` (default: the initial one)."""
        self.restore(self.initial if start is None else start)
        self.graphed(steps)
        return self.snapshot()

    def after_eager(self, steps: int, start: Snapshot | None = None) -> Snapshot:
        """The state `steps` eager steps behind `start` (default: the initial one)."""
        self.restore(self.initial if start is None else start)
        self.eager(steps)
        return self.snapshot()

    def sync(self) -> None:
        """Wait for the steps issued so far."""
        driver.stream.synchronize(self.parts.stream)

    def close(self) -> None:
        """Free everything. Idempotent."""
        self.parts.close()

    def __enter__(self) -> Subject:
        """Return the subject."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it; an error in flight is not hidden by what closing then raises.

        A device that was lost in a gate is that gate's outcome, not an error of the closing.
        """
        try:
            self.close()
        except ContextPoisoned:
            pass
        except LowgraphError:
            if error is None:
                raise


def same_bits(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Elementwise: whether the bytes are equal (NaN equals the same NaN, 0 is not -0)."""
    size = ours.dtype.itemsize
    left = np.ascontiguousarray(ours).reshape(-1).view(np.uint8).reshape(-1, size)
    right = np.ascontiguousarray(theirs).reshape(-1).view(np.uint8).reshape(-1, size)
    same: npt.NDArray[np.bool_] = (left == right).all(axis=1)
    return same
