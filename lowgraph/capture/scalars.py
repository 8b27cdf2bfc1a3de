"""Frozen scalars: by-value arguments and launch sizes that differ between two passes of one body.

The priming pass and the recorded pass are two different steps. What differs between them by value,
a step number, a learning rate, a seed, would be the recorded step's in every replay.
"""

from __future__ import annotations

from typing import Any

from lowgraph.capture.journal import Journal, LaunchRecord
from lowgraph.errors import FrozenScalar

__all__ = ["find_frozen", "same_launches"]

_SIZES = ("grid", "block", "dynamic shared memory")
_REMEDY = "keep what changes from step to step in device memory, and pass its address"


def same_launches(primed: Journal, recorded: Journal) -> bool:
    """Whether both passes launched the same kernels in the same order."""
    ours = [launch.function for launch in primed.launches]
    return ours == [launch.function for launch in recorded.launches]


def find_frozen(primed: Journal, recorded: Journal) -> FrozenScalar | None:
    """The refusal for the first scalar that differs; None when none does.

    Launches are compared in pairs; passes that launched different kernels cannot be, and are not.
    """
    if not same_launches(primed, recorded):
        return None
    for number, (old, new) in enumerate(zip(primed.launches, recorded.launches, strict=True)):
        for label, size, now in zip(_SIZES, old.sizes, new.sizes, strict=False):
            if size != now:
                remedy = "launch what the largest step needs, and read the size on the device"
                return _refusal(number, new, f"the {label}", size, now, remedy)
        for (name, before), (_, now) in zip(old.scalars, new.scalars, strict=True):
            if not _equal(before, now):
                return _refusal(number, new, f"argument {name!r}", before, now, _REMEDY)
    return None


def _equal(before: Any, now: Any) -> bool:
    both_nan = before != before and now != now
    return bool(before == now) or both_nan


def _refusal(
    number: int, launch: LaunchRecord, what: str, before: Any, now: Any, remedy: str
) -> FrozenScalar:
    return FrozenScalar(
        f"{what} of {launch.kernel} (launch {number}) was {before!r} in the priming "
        f"pass and {now!r} in the recorded one: every replay would use {now!r}",
        launch.where,
        remedy,
    )
