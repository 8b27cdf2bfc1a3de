"""Cases: a row at one size on this device, with the processes that run its arms."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lowgraph.bench.data import BATCHES, plan_of, write_arrays
from lowgraph.bench.rows import Rival, Row
from lowgraph.bench.update import COMPARED_STEPS, EMA_DECAY, LEARNING_RATE, shapes

__all__ = ["Case", "cases"]

_OURS = Rival("lowgraph", "", "")


@dataclass(frozen=True)
class Case:
    """One comparison.

    config: its size, for people. spec: what the arms' processes are told. size: the chain's kernels
    or the parameters of an update; 0 for a train row.
    """

    row: Row
    config: str
    spec: dict[str, Any]
    size: int = 0

    @property
    def clock(self) -> str:
        """What its `us` are: the host's time of a step, or the wall's."""
        return "host" if self.row.kind == "chain" else "wall"

    def arms(self, with_rivals: bool) -> list[Rival]:
        """Who runs in which process; ours first."""
        return [_OURS, *(self.row.rivals if with_rivals else ())]

    def command(self, arm: Rival, programs: Path) -> list[str]:
        """The process of an arm."""
        if arm is _OURS:
            return [sys.executable, "-m", "lowgraph.bench.ours"]
        return [sys.executable, str(programs / "rivals" / arm.program)]

    def prepare(self, folder: Path) -> None:
        """Write what rivals start from into the folder, which the spec names."""
        if self.row.kind == "train":
            write_arrays(_plan(self.row, self.spec["kind_of_device"]), folder)


def cases(row: Row, device: str, kind: str, programs: Path, folder: Path) -> Iterator[Case]:
    """The row's cases on a device; none where it has no size for its kind."""
    common = {
        "row": row.id, "kind": row.kind, "device": device, "kind_of_device": kind,
        "precision": row.precision, "optimizer": row.optimizer, "folder": str(folder),
    }  # fmt: skip
    if row.kind == "train":
        if kind in row.sizes:
            yield _train_case(row, kind, common)
        return
    for count in row.counts.get(kind, ()):
        if row.kind == "chain":
            spec = {**common, "count": count, "kernels": str(programs / "chain.cu")}
            yield Case(row, f"{count} empty kernels", spec, count)
        else:
            yield _update_case(row, count, common)


def _plan(row: Row, kind: str) -> Any:
    return plan_of(row, row.sizes[kind])


def _train_case(row: Row, kind: str, common: dict[str, Any]) -> Case:
    plan = _plan(row, kind)
    schedule, shape = plan.schedule, asdict(plan.shape)
    told = ", ".join(f"{name} {value}" for name, value in shape.items())
    spec = {
        **common, "model": plan.model, "shape": shape, "steps": BATCHES,
        "learning_rate": schedule.learning_rate, "beta1": schedule.beta1, "beta2": schedule.beta2,
        "epsilon": schedule.epsilon,
    }  # fmt: skip
    return Case(row, f"{plan.model} {plan.preset}: {told}, batch {schedule.batch}", spec)


def _update_case(row: Row, count: int, common: dict[str, Any]) -> Case:
    ema = row.id.endswith("e")
    elements = sum(_product(shape) for shape in shapes(count))
    spec = {
        **common, "count": count, "ema": ema, "steps": COMPARED_STEPS, "ema_decay": EMA_DECAY,
        "learning_rate": LEARNING_RATE, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8,
    }  # fmt: skip
    return Case(row, f"{row.config} over {elements} parameters", spec, elements)


def _product(shape: tuple[int, ...]) -> int:
    found = 1
    for size in shape:
        found *= size
    return found
