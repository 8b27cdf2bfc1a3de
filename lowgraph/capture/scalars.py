"""Frozen scalars: arguments and launch sizes that would be the recorded step's in every replay.

The priming pass and the recorded pass are two different steps, so what differs between them by
value, a step number, a learning rate, is found by comparing them. What happens to be equal in both,
a seed, a rate on a plateau of its schedule, is found only if it was declared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from lowgraph.capture.journal import Journal, LaunchRecord, LibraryCall
from lowgraph.errors import FrozenScalar

__all__ = ["find_declared", "find_frozen", "launch_pairs", "same_launches"]

_Issued = tuple[str, str, LaunchRecord | LibraryCall]  # place, kernel's or function's name

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

    Products are compared in pairs, and so are launches and calls of libraries; passes of different
    kernels, or of more products, cannot be, and are not: see `shape_set`. An unrecorded pass may
    not have come to a body: those are apart from the others.
    """
    found = _find_product(primed, recorded)
    for inside in (False, True):
        found = found or _first_frozen(launch_pairs(primed, recorded, inside) or [])
    return found or _find_library(primed, recorded)


def _first_frozen(pairs: list[tuple[LaunchRecord, LaunchRecord]]) -> FrozenScalar | None:
    for number, (old, new) in enumerate(pairs):
        call = f"{new.kernel} (launch {number})"
        for label, size, now in zip(_SIZES, old.sizes, new.sizes, strict=False):
            if size != now:
                return _refusal(f"the {label} of {call}", new.kernel, None, size, now, new)
        for (name, before), (_, now) in zip(old.scalars, new.scalars, strict=True):
            if not _equal(before, now):
                what = f"argument {name!r} of {call}"
                return _refusal(what, new.kernel, name, before, now, new)
    return None


def _equal(before: Any, now: Any) -> bool:
    both_nan = before != before and now != now
    return bool(before == now) or both_nan


def find_declared(per_step: Collection[str], recorded: Journal) -> FrozenScalar | None:
    """The refusal for the first by-value argument that was declared to change; None if none is.

    per_step: parameter names, of every kernel and C function ("lr") or of one ("adamw.lr").
    """
    launches: Iterator[_Issued] = (
        (f"launch {n}", one.kernel, one) for n, one in enumerate(recorded.launches)
    )
    calls: Iterator[_Issued] = (
        (f"library call {n}", one.name, one) for n, one in enumerate(recorded.library)
    )
    for place, kernel, one in (*launches, *calls):
        for name, value in one.scalars:
            if name in per_step or f"{kernel}.{name}" in per_step:
                return FrozenScalar(
                    f"argument {name!r} of {kernel} ({place}) was declared to change from step to "
                    f"step, and is passed by value: every replay would use {value!r}",
                    one.where,
                    _REMEDY,
                    kernel=kernel,
                    parameter=name,
                    recorded=value,
                    stage=one.stage,
                )
    return None


def _find_library(primed: Journal, recorded: Journal) -> FrozenScalar | None:
    """The refusal for the first by-value argument of a library's function that differs."""
    if [call.name for call in primed.library] != [call.name for call in recorded.library]:
        return None
    for number, (old, new) in enumerate(zip(primed.library, recorded.library, strict=True)):
        for (name, before), (_, now) in zip(old.scalars, new.scalars, strict=True):
            if not _equal(before, now):
                what = f"argument {name!r} of {new.name} (library call {number})"
                return _refusal(what, new.name, name, before, now, new)
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
    what: str,
    kernel: str,
    parameter: str | None,
    before: Any,
    now: Any,
    at: LaunchRecord | LibraryCall,
) -> FrozenScalar:
    """what: the argument or the size, and of which call, `at`."""
    return FrozenScalar(
        f"{what} was {before!r} in the priming pass and {now!r} in the recorded one: every replay "
        f"would use {now!r}",
        at.where,
        _SIZE_REMEDY if parameter is None else _REMEDY,
        kernel=kernel,
        parameter=what.partition(" of ")[0] if parameter is None else parameter,
        primed=before,
        recorded=now,
        stage=at.stage,
    )
