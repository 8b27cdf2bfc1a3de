"""Do two arms compute the same? Losses of the same weights on the same batches, by precision."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["LATER", "TOLERANCES", "agree", "tolerance"]

# Of a first loss, relative. A loss is a mean over hundreds of rows and more, in which the roundings
# of single operands average out, so half of one operand's bound is far: TF32's 2^-11, bfloat16's
# 2^-9. (At the small sizes bfloat16 is 2e-5 from PyTorch's autocast.) float32: sums of a few
# hundred terms in another order.
TOLERANCES = {"fp32": 2e-5, "tf32": 2.5e-4, "bf16": 1e-3}

# The last compared loss is some steps of an optimizer further, whose update's sign is rounding
# wherever a gradient is next to nothing.
LATER = 5.0


def tolerance(*precisions: str | None) -> float:
    """Of the coarsest of some precisions."""
    return max(TOLERANCES[name] for name in precisions if name is not None)


def agree(ours: Sequence[float], theirs: Sequence[float], allowed: float) -> bool:
    """Whether first losses agree within `allowed`, relative, and last ones within LATER of it.

    False for losses that are not there, not finite, or not as many.
    """
    if not ours or len(ours) != len(theirs):
        return False
    pairs = ((ours[0], theirs[0], allowed), (ours[-1], theirs[-1], LATER * allowed))
    return all(
        math.isfinite(a) and math.isfinite(b) and abs(a - b) <= limit * abs(b)
        for a, b, limit in pairs
    )
