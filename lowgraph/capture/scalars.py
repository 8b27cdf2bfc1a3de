"""Frozen scalars: arguments and launch sizes that would be the recorded step's in every replay.

The priming pass and the recorded pass are two different steps, so what differs between them by
value, a step number, a learning rate, is found by comparing them. What happens to be equal in both,
a seed, a rate on a plateau of its schedule, is found only if it was declared.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from lowgraph.capture.journal import Journal, LaunchRecord
from lowgraph.errors import FrozenScalar

__all__ = ["find_declared", "find_frozen", "launch_pairs", "same_launches"]

_REMEDY = "keep what changes from step to step in device memory, and pass its address"
_SIZES = ("grid", "block", "dynamic shared memory")
_SIZE_REMEDY = "launch what the largest step needs, and read the size on the device"


def same_launches(primed: Journal, recorded: Journal, inside: bool = False) -> bool:
    """Whether both passes launched the same kernels in the same order.

    inside: those in bodies of conditionals, which an unrecorded pass may not have come to.
    """
    return launch_pairs(primed, recorded, inside) is not None


def launch_pairs(
    primed: Journal, recorded: Journal, inside: bool
) -> list[tuple[LaunchRecord, LaunchRecord]] | None:
    """Launches inside of conditionals' bodies, or outside, in pairs; None if they are others."""
    ours, theirs = (
        [one for one in journal.launches if not one.aside and bool(one.body) == inside]
        for journal in (primed, recorded)
    )
    if [launch.function for launch in ours] != [launch.function for launch in theirs]:
        return None
    return list(zip(ours, theirs, strict=True))


def find_frozen(primed: Journal, recorded: Journal) -> FrozenScalar | None:
    """The refusal for the first scalar that differs; None when none does.

    Products are compared in pairs, and so are launches; passes of different kernels, or of more
    products, cannot be, and are not: see `shape_set`. An unrecorded pass may not have come to a
    body: those are apart from the others.
    """
    found = _find_product(primed, recorded)
    for inside in (False, True):
        found = found or _first_frozen(launch_pairs(primed, recorded, inside) or [])
    return found


def _first_frozen(pairs: list[tuple[LaunchRecord, LaunchRecord]]) -> FrozenScalar | None:
    for number, (old, new) in enumerate(pairs):
        for label, size, now in zip(_SIZES, old.sizes, new.sizes, strict=False):
            if size != now:
                return _refusal(number, new, f"the {label}", None, size, now)
        for (name, before), (_, now) in zip(old.scalars, new.scalars, strict=True):
            if not _equal(before, now):
                return _refusal(number, new, f"argument {name!r}", name, before, now)
    return None


def _equal(before: Any, now: Any) -> bool:
    both_nan = before != before and now != now
    return bool(before == now) or both_nan


def find_declared(per_step: Collection[str], recorded: Journal) -> FrozenScalar | None:
    """The refusal for the first by-value argument that was declared to change; None if none is.

    per_step: parameter names, of every kernel ("lr") or of one ("adamw.lr").
    """
    for number, launch in enumerate(recorded.launches):
        for name, value in launch.scalars:
            if name in per_step or f"{launch.kernel}.{name}" in per_step:
                return FrozenScalar(
                    f"argument {name!r} of {launch.kernel} (launch {number}) was declared to "
                    f"change from step to step, and is passed by value: every replay would use "
                    f"{value!r}",
                    launch.where,
                    _REMEDY,
                    kernel=launch.kernel,
                    parameter=name,
                    recorded=value,
                    stage=launch.stage,
                )
    return None


def _find_product(primed: Journal, recorded: Journal) -> FrozenScalar | None:
    """The refusal for the first product of other sizes, whichever backend runs it."""
    old = [size for size in primed.sizes if size.kind == "product"]
    new = [size for size in recorded.sizes if size.kind == "product"]
    if len(old) != len(new):
        return None
    for number, (before, now) in enumerate(zip(old, new, strict=True)):
        if before.sizes != now.sizes:
            return FrozenScalar(
                f"product {number} was {before.name} in the priming pass and {now.name} in the "
                "recorded one: every replay would have the recorded sizes",
                now.where,
                "make a step for each shape (ShapeKeyedSteps), or multiply the largest in each",
                kernel="gemm",
                parameter="sizes",
                primed=before.sizes,
                recorded=now.sizes,
            )
    return None


def _refusal(
    number: int, launch: LaunchRecord, what: str, parameter: str | None, before: Any, now: Any
) -> FrozenScalar:
    return FrozenScalar(
        f"{what} of {launch.kernel} (launch {number}) was {before!r} in the priming "
        f"pass and {now!r} in the recorded one: every replay would use {now!r}",
        launch.where,
        _SIZE_REMEDY if parameter is None else _REMEDY,
        kernel=launch.kernel,
        parameter=what if parameter is None else parameter,
        primed=before,
        recorded=now,
        stage=launch.stage,
    )
