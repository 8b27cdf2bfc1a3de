"""A body that is one block of CuPy's."""

from __future__ import annotations

from collections.abc import Callable

from lowgraph.interop import cupy_ops
from tests.embedding.small import Small

Act = Callable[[int], object]


def of(small: Small, act: Act) -> Act:
    """act: called in the block, with the body's stream."""

    def body(stream: int) -> None:
        with cupy_ops(small.pool, stream):
            act(stream)

    return body
