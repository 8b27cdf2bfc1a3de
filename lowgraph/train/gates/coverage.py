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
    """One step over poisoned gradients and zero state. figure: parameters that are covered."""
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
    names = ", ".join(parts.optimizer.state)
    state = f" and state ({names})" if names else ""
    detail = f"{covered} of {len(parameters)} parameters get a gradient{state}"
    detail += "; nothing beside them is written" if not extra else ""
    if wrong:
        detail += f"; {'; '.join(wrong[:_SHOWN])}{' ...' if len(wrong) > _SHOWN else ''}"
    return Gate("coverage", not wrong, covered, detail)


def _poison(subject: Subject) -> None:
    """Gradients hold the poison, padding too; state holds zero, so that a written one shows."""
    parts = subject.parts
    for arena in subject.gradients:
        flat = arena.flat
        driver.memory.memset_d32_async(flat.address, _POISON, flat.elements, parts.stream)
    for arena in parts.optimizer.state.values():
        fill_zero(arena.flat, parts.stream)


def _uncovered(subject: Subject, after: Snapshot) -> list[tuple[str, str]]:
    """Parameters, by name, that lack something, and what."""
    parts = subject.parts
    optimizer, clip = parts.optimizer, parts.norm.read(parts.stream).coefficient
    faults = []
    for name in parts.model.parameters:
        if name not in parts.model.gradients:
            faults.append((name, "has no gradient buffer"))
            continue
        found = [_gradient_fault(_tensor(after, arena, name)) for arena in subject.gradients]
        scaled = clip * _tensor(after, parts.body.gradients, name)
        for moment in (optimizer.state[kept] for kept in optimizer.state_names):
            found.append(_state_fault(after, moment, name, scaled))
        if optimizer.ema is not None:
            value = _tensor(after, parts.model.parameters, name)
            found.append(_state_fault(after, optimizer.ema, name, value))
        faults += [(name, fault) for fault in found if fault][:1]
    return faults


def _gradient_fault(gradient: Array) -> str:
    left = int((gradient.view(np.uint32) == _POISON).sum())
    if left:
        return f"{left} of {gradient.size} elements of the gradient are never written"
    if np.isnan(gradient).any():
        return "the gradient is NaN: it is added to what was there, or is wrong"
    return "" if gradient.any() else "the gradient is zero in every element"


def _state_fault(after: Snapshot, arena: Arena, name: str, source: Array) -> str:
    """What is wrong with state that the step makes, out of zero, from `source`."""
    if name not in arena:
        return f"has no buffer in {arena.name}"
    missing = (np.abs(source) > _SMALLEST) & (_tensor(after, arena, name) == 0)
    return f"{int(missing.sum())} elements of {arena.name} stay zero" if missing.any() else ""


def _extra(subject: Subject, after: Snapshot) -> list[str]:
    """What exists or was written beside the parameters' own."""
    parts = subject.parts
    gradients = parts.model.gradients
    names = set(parts.model.parameters)
    arenas = (*subject.gradients, *parts.optimizer.state.values())
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
