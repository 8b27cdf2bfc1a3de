"""How far gradients in a precision are from float64, and how far they may be.

What roundings add up to differs from seed to seed, and in a tensor of one number it may be next to
nothing: of two equally good programs each is more than twice as far off as the other in three seeds
of ten. So they are compared over SEEDS (docs/decisions/0014-nearness-is-judged-over-seeds.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowgraph.precision import Precision

__all__ = ["ROUNDOFF", "SEEDS", "Draw", "assert_as_near", "distances"]

Named = dict[str, npt.NDArray[np.float64]]

ROUNDOFF = {Precision.TF32: 2.0**-11, Precision.BF16: 2.0**-8}
"""Relative, of one rounding of an operand."""

SEEDS = range(1, 33)
"""Of the draws that are compared; the limits below are for as many."""

# Of two equally good programs one is so much farther, in a tensor of one number, by chance in one
# comparison of 11 000.
_FARTHER = 2.0
# Of 32 seeds; more on one side by chance in one comparison of 50 000.
_ON_ONE_SIDE = 27


class Draw(NamedTuple):
    """Loss and gradients of one seed, or one of these: ours and theirs in bfloat16, and exact."""

    ours: Any
    theirs: Any
    double: Any


def distances(found: Named, double: Named) -> dict[str, float]:
    """Of each tensor, and of all in one under "": norm of the difference over that of `double`.

    A tensor's norm is at least 1e-6 of all: some gradients are zero but for rounding.
    """
    assert found.keys() == double.keys()
    off = {name: float(np.linalg.norm(found[name] - double[name])) for name in double}
    size = {name: float(np.linalg.norm(double[name])) for name in double}
    all_sizes = float(np.linalg.norm([*size.values()]))
    whole = float(np.linalg.norm([*off.values()])) / all_sizes
    return {"": whole, **{name: off[name] / (size[name] + 1e-6 * all_sizes) for name in double}}


def assert_as_near(draws: Sequence[Draw]) -> None:
    """Fail where ours are worse than theirs over the seeds, in the loss or in one gradient.

    Farther: the root mean square of the distances from float64 is more than twice theirs.
    Leaning: in nearly all seeds ours are too short, or too long, by more than one rounding of an
    operand. A number that is the same in each seed is rounded the same way, and leans by as much; a
    mistake leans by more, and is seen so where the rounding of one seed would hide it.
    """
    assert len(draws) == len(SEEDS), f"{len(draws)} draws, the limits are for {len(SEEDS)}"
    assert all(each.keys() == draw.double.keys() for draw in draws for each in draw)
    # Some gradients are zero but for rounding.
    least = 1e-6 * _root_mean_square([value for draw in draws for value in draw.double.values()])
    worse = {}
    for name in draws[0].double:
        tensors = [Draw(*(each[name] for each in draw)) for draw in draws]
        verdict = _farther(tensors, least) or _leaning(tensors, least)
        if verdict:
            worse[name] = verdict
    assert not worse, f"worse than theirs over {len(draws)} seeds: {worse}"


def _farther(tensors: Sequence[Draw], least: float) -> str:
    ours = _root_mean_square([draw.ours - draw.double for draw in tensors])
    theirs = _root_mean_square([draw.theirs - draw.double for draw in tensors])
    size = _root_mean_square([draw.double for draw in tensors]) + least
    beyond = ours > _FARTHER * theirs + least
    return f"off by {ours / size:.1e}, theirs by {theirs / size:.1e}" if beyond else ""


def _leaning(tensors: Sequence[Draw], least: float) -> str:
    along = [
        np.sum((ours - double) * double) / (np.sum(double * double) + least**2)
        for ours, _, double in tensors
    ]
    most = ROUNDOFF[Precision.BF16]
    for side, seeds in [("short", np.less(along, -most)), ("long", np.greater(along, most))]:
        if seeds.sum() > _ON_ONE_SIDE:
            return f"too {side} in {seeds.sum()} seeds, by {abs(np.median(along)):.1e}"
    return ""


def _root_mean_square(tensors: Sequence[npt.NDArray[np.float64]]) -> float:
    """Of their norms."""
    return float(np.sqrt(np.mean([np.sum(tensor * tensor) for tensor in tensors])))
