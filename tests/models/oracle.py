"""The rule for comparing with a foreign float32 oracle: its own rounding sets the limit.

Distance of a tensor: norm of the difference over (norm of the reference + 1e-6 of the global norm).
The reference is the oracle in float64; the limit is ten times the distance of the oracle's float32,
or of rounding to float32 alone where the oracle happens to be nearer than that. One run in float32
is one draw of its rounding, and a tensor of one number may draw next to nothing: a test whose
tensors are that small draws again, by the oracle in float64 on weights that are `nudged` by as much
as float32 rounds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["MARGIN", "Row", "compare", "nudged", "split_key_bias", "worst"]

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


def nudged(
    weights: Mapping[str, npt.NDArray[np.float32]], seed: int
) -> dict[str, npt.NDArray[np.float64]]:
    """Weights, each moved by up to the rounding of float32, at random; in float64."""
    generator = np.random.default_rng(seed)
    return {
        name: value * (1 + generator.uniform(-ROUNDING, ROUNDING, value.shape))
        for name, value in weights.items()
    }


def compare(ours: Named, single: Named, double: Named, *draws: Named) -> list[Row]:
    """A row a tensor; names must agree exactly, so that none is missing and none extra.

    draws: further gradients of the oracle that differ from `double` by float32's rounding only.
    """
    assert ours.keys() == double.keys() == single.keys()
    whole = float(np.sqrt(sum(np.sum(value**2) for value in double.values())))
    rows = []
    for name, reference in double.items():
        scale = float(np.linalg.norm(reference)) + 1e-6 * whole
        distance = float(np.linalg.norm(ours[name] - reference)) / scale
        theirs = max(
            float(np.linalg.norm(drawn[name] - reference)) / scale for drawn in (single, *draws)
        )
        rows.append(Row(name, distance, MARGIN * max(theirs, ROUNDING)))
    return rows


def worst(rows: list[Row]) -> Row:
    """The row that comes nearest to its limit, or exceeds it most."""
    return max(rows, key=lambda row: row.excess)
