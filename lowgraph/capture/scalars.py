"""Frozen scalars: by-value arguments that differ between two passes of one body.

The priming pass and the recorded pass are two different steps. What differs between them by value,
a step number, a learning rate, a seed, would be the recorded step's in every replay.
"""

from __future__ import annotations

from typing import Any

from lowgraph.capture.journal import Journal, LaunchRecord
from lowgraph.errors import FrozenScalar

__all__ = ["find_frozen", "same_launches"]


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
        for (name, before), (_, now) in zip(old.scalars, new.scalars, strict=True):
            if not _equal(before, now):
                return _refusal(number, new, name, before, now)
    return None


def _equal(before: Any, now: Any) -> bool:
    both_nan = before != before and now != now
    return bool(before == now) or both_nan


def _refusal(number: int, launch: LaunchRecord, name: str, before: Any, now: Any) -> FrozenScalar:
    return FrozenScalar(
        f"argument {name!r} of {launch.kernel} (launch {number}) was {before!r} in the priming "
        f"pass and {now!r} in the recorded one: every replay would use {now!r}",
        launch.where,
        "keep what changes from step to step in device memory, and pass its address",
    )
