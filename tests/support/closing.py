"""Things that a fixture makes on demand, and closes when its test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["all_closed"]


@contextmanager
def all_closed(make: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """`make`; everything it made in the block is closed at the block's end, in its order."""
    made = []

    def build(*args: Any, **options: Any) -> Any:
        made.append(make(*args, **options))
        return made[-1]

    yield build
    for each in made:
        each.close()
