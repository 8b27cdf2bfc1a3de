"""Integers that users give: counts, sizes, seeds, priorities.

cuda-bindings and NumPy take the whole part of a float and a bool for 0 or 1, and say nothing: a
stream of priority 1.5 was one of priority 1, a seed of 0.5 the seed 0. So they are looked at first.
"""

from __future__ import annotations

import operator
from typing import Any

from lowgraph.errors import ConfigError

__all__ = ["integer"]


def integer(value: Any, what: str, low: int | None = None, high: int | None = None) -> int:
    """Return `value`, a Python or NumPy integer, as an int. Where both are given, low <= high.

    what: whose it is, for the message. Raises ConfigError for what is no integer (a float and a
    bool are none), or lies beyond `low` or `high`, themselves included.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise _misfit(value, what, low, high) from None
    below, above = low is not None and number < low, high is not None and number > high
    if isinstance(value, bool) or below or above:
        raise _misfit(value, what, low, high)
    return number


def _misfit(value: Any, what: str, low: int | None, high: int | None) -> ConfigError:
    return ConfigError(f"{what} must be an integer{_range(low, high)}, got {value!r}")


def _range(low: int | None, high: int | None) -> str:
    if low is None:
        return "" if high is None else f" of at most {high}"
    return f" of at least {low}" if high is None else f" from {low} to {high}"
