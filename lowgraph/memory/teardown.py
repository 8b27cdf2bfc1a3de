"""Giving back many things of which each may fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lowgraph.errors import DriverError

__all__ = ["do_all"]


def do_all(acts: Iterable[Callable[[], object]]) -> None:
    """Do every act, also behind one that failed; then raise the first DriverError, if any."""
    errors: list[DriverError] = []
    for act in acts:
        try:
            act()
        except DriverError as error:
            errors.append(error)
    if errors:
        raise errors[0]
