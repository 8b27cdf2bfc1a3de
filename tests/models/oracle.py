"""The rule for comparing with a foreign float32 oracle: its own rounding sets the limit.

Distance of a tensor: norm of the difference over (norm of the reference + 1e-6 of the global norm).
The reference is the oracle in float64; the limit is ten times the distance of the oracle's float32,
or of rounding to float32 alone where the oracle happens to be nearer than that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["MARGIN", "Row", "compare", "split_key_bias", "worst"]

MARGIN = 10.0
ROUNDING = 2.0**-24  # half a unit in the last place: what storing a gradient in float32 may cost
Named = dict[str, npt.NDArray[np.float64]]


@dataclass(frozen=True)
class Row:
    name: str
    distance: float
    limit: float

    @property
    def excess(self) -> float:
        return self.distance / self.limit

    def __str__(self) -> str:
        return f"{self.name}: {self.distance:.3g}, limit {self.limit:.3g}"


def split_key_bias(tensors: Named) -> Named:
    """Each `qkv.bias` as its q and v thirds.

    The key third is left out: adding one vector to all keys shifts each row of scores by a
    constant, which softmax ignores, so its gradient is zero and what is computed is rounding.
    """
    parts: Named = {}
    for name, value in tensors.items():
        if not name.endswith("qkv.bias"):
            parts[name] = value
            continue
        query, _key, value_third = np.split(value, 3)
        parts[f"{name}[q]"], parts[f"{name}[v]"] = query, value_third
    return parts


def compare(ours: Named, single: Named, double: Named) -> list[Row]:
    """A row a tensor; names must agree exactly, so that none is missing and none extra."""
    assert ours.keys() == double.keys() == single.keys()
    whole = float(np.sqrt(sum(np.sum(value**2) for value in double.values())))
    rows = []
    for name, reference in double.items():
        scale = float(np.linalg.norm(reference)) + 1e-6 * whole
        distance = float(np.linalg.norm(ours[name] - reference)) / scale
        theirs = float(np.linalg.norm(single[name] - reference)) / scale
        rows.append(Row(name, distance, MARGIN * max(theirs, ROUNDING)))
    return rows


def worst(rows: list[Row]) -> Row:
    """The row that comes nearest to its limit, or exceeds it most."""
    return max(rows, key=lambda row: row.excess)
