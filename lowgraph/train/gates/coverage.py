"""The coverage gate: every parameter gets a gradient and optimizer state, and nothing else does."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowgraph import driver
from lowgraph.memory import Arena, Slice, download, fill_zero
from lowgraph.train.gates.outcome import Gate
from lowgraph.train.gates.subject import Snapshot, Subject, same_bits

__all__ = ["coverage"]

_POISON = 0x7FC0DEAD  # a NaN that no arithmetic makes: its payload is ours
# Below it the square of a gradient, a hundredth of which is the second moment, may underflow.
_SMALLEST = 1e-15
_SHOWN = 5

Array = npt.NDArray[Any]


def coverage(subject: Subject) -> Gate:
    """One step over poisoned gradients and zero moments. figure: parameters that are covered."""
    parts = subject.parts
    inputs = [*parts.feeds.train.sources, *parts.feeds.heldout.sources]
    subject.restore(subject.initial)
    before = {piece.name: download(piece, parts.stream) for piece in inputs}
    _poison(subject)
    if subject.problem:
        subject.eager(1)
    else:
        subject.graphed(1)
    after = subject.snapshot()
    faults = _uncovered(subject, after)
    parameters = parts.model.parameters
    covered = len(parameters) - len({name for name, _ in faults})
    extra = _extra(subject, after)
    for piece in inputs:
        if not same_bits(before[piece.name], download(piece, parts.stream)).all():
            extra.append(f"{piece.name} was written")
    subject.restore(subject.initial)
    wrong = extra + [f"{name}: {fault}" for name, fault in faults]
    detail = f"{covered} of {len(parameters)} parameters get a gradient and both moments"
    detail += "; nothing beside them is written" if not extra else ""
    if wrong:
        detail += f"; {'; '.join(wrong[:_SHOWN])}{' ...' if len(wrong) > _SHOWN else ''}"
    return Gate("coverage", not wrong, covered, detail)


def _poison(subject: Subject) -> None:
    """Gradients hold the poison, padding too; moments hold zero, so that a written one shows."""
    parts = subject.parts
    flat = parts.model.gradients.flat
    driver.memory.memset_d32_async(flat.address, _POISON, flat.elements, parts.stream)
    for moment in (parts.optimizer.moment1, parts.optimizer.moment2):
        fill_zero(moment.flat, parts.stream)


def _uncovered(subject: Subject, after: Snapshot) -> list[tuple[str, str]]:
    """Parameters, by name, that lack something, and what."""
    model, optimizer = subject.parts.model, subject.parts.optimizer
    faults = []
    for name in model.parameters:
        if name not in model.gradients:
            faults.append((name, "has no gradient buffer"))
            continue
        gradient = _tensor(after, model.gradients, name)
        fault = _gradient_fault(gradient)
        for moment in (optimizer.moment1, optimizer.moment2):
            fault = fault or _moment_fault(after, moment, name, gradient)
        if fault:
            faults.append((name, fault))
    return faults


def _gradient_fault(gradient: Array) -> str:
    left = int((gradient.view(np.uint32) == _POISON).sum())
    if left:
        return f"{left} of {gradient.size} elements of the gradient are never written"
    if np.isnan(gradient).any():
        return "the gradient is NaN: it is added to what was there, or is wrong"
    return "" if gradient.any() else "the gradient is zero in every element"


def _moment_fault(after: Snapshot, moment: Arena, name: str, gradient: Array) -> str:
    if name not in moment:
        return f"has no buffer in {moment.name}"
    missing = (np.abs(gradient) > _SMALLEST) & (_tensor(after, moment, name) == 0)
    return f"{int(missing.sum())} elements of {moment.name} stay zero" if missing.any() else ""


def _extra(subject: Subject, after: Snapshot) -> list[str]:
    """What exists or was written beside the parameters' own."""
    parts = subject.parts
    gradients = parts.model.gradients
    names = set(parts.model.parameters)
    arenas = (gradients, parts.optimizer.moment1, parts.optimizer.moment2)
    found = [f"{arena.name} has {name}, which is no parameter" for arena in arenas
             for name in arena if name not in names]  # fmt: skip
    padding = np.ones(gradients.elements, np.bool_)
    for offset, piece in _places(gradients):
        padding[offset : offset + piece.elements] = False
    words = after[gradients.flat.name].view(np.uint32)[padding]
    written = int((words != _POISON).sum())
    if written:
        found.append(f"{written} elements between the tensors of {gradients.name} were written")
    return found


def _tensor(after: Snapshot, arena: Arena, name: str) -> Array:
    offset = arena.offset(name)
    values: Array = after[arena.flat.name][offset : offset + arena[name].elements]
    return values


def _places(arena: Arena) -> list[tuple[int, Slice]]:
    return list(zip(arena.layout.offsets, arena.values(), strict=True))
