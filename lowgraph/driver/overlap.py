"""Whether kernels that wait for the one ahead of them by themselves are launched before its end.

Programmatic dependent launch: kernels_cu/common/grid_wait.cuh has the device's half.
"""

from __future__ import annotations

import os

from lowgraph.errors import ConfigError

__all__ = ["is_on"]

_SWITCH = "LOWGRAPH_OVERLAP"
_FIRST_CAPABILITY = (9, 0)  # whose code the wait is compiled into


def is_on(compute_capability: tuple[int, int]) -> bool:
    """Return whether a GPU of that compute capability overlaps launches.

    $LOWGRAPH_OVERLAP "0" says no; "1", empty or unset do not. Raises ConfigError for anything else.
    """
    told = os.environ.get(_SWITCH, "")
    if told not in ("", "0", "1"):
        raise ConfigError(
            f"${_SWITCH} is {told!r}: give 0 for kernels that are launched one behind the other, "
            "or 1"
        )
    return told != "0" and compute_capability >= _FIRST_CAPABILITY
