"""The codes that driver calls fail with."""

from __future__ import annotations

from collections.abc import Callable

from lowgraph.errors import DriverError

__all__ = ["code_of"]


def code_of(act: Callable[[], object]) -> int:
    """The code with which a call fails; 0 if it does not."""
    try:
        act()
    except DriverError as error:
        return error.code
    return 0
