"""How far gradients in a precision are from float64, and how far they may be."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lowgraph.precision import Precision

__all__ = ["ROUNDOFF", "assert_as_near", "distances"]

Named = dict[str, npt.NDArray[np.float64]]

ROUNDOFF = {Precision.TF32: 2.0**-11, Precision.BF16: 2.0**-8}
"""Relative, of one rounding of an operand."""

_FEW = 16  # elements
_SMALL = "the small ones"
# A gradient lies behind about eight products with operands in bfloat16; nothing averages over so
# few elements.
_HANDFUL = 8 * ROUNDOFF[Precision.BF16]


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


def assert_as_near(ours: Named, theirs: Named, double: Named) -> None:
    """Fail if ours are more than twice as far from float64 as theirs, in all or in one tensor.

    Of one tensor unless theirs happens to be nearer than they are in all: both round the same
    operands, in another order, and some tensors come out nearer, others farther. Tensors of a few
    elements are judged as one, and may be off by _HANDFUL: a handful of rounding errors says
    nothing. Six times theirs was seen (mamba2, one head, seed 1), with the scan in float32 too.
    """
    far, mine = (_judged(distances(each, double), double) for each in (theirs, ours))
    beyond = {
        name: f"{off:.1e}, theirs {far[name]:.1e}"
        for name, off in mine.items()
        if off > max(2 * max(far[name], far[""]), _HANDFUL if name == _SMALL else 0.0)
    }
    assert not beyond, f"more than twice as far: {beyond}"


def _judged(off: dict[str, float], double: Named) -> dict[str, float]:
    """The distances; those of small tensors as of one, for which their numbers are put together.

    A number of its own may be what is left of two that cancel, and is off by any share of itself.
    """
    size = {name: float(np.linalg.norm(value)) for name, value in double.items()}
    least = 1e-6 * float(np.linalg.norm([*size.values()]))
    small = [name for name, value in double.items() if value.size < _FEW]
    rest = {name: value for name, value in off.items() if name not in small}
    apart = float(np.linalg.norm([off[name] * (size[name] + least) for name in small]))
    together = float(np.linalg.norm([size[name] for name in small])) + least
    return {**rest, _SMALL: apart / together}
