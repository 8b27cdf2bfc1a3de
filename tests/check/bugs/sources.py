"""The bench's kernels for lowgraph's own launchers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from lowgraph.kernels import Kernel, Library
from tests.check.bugs.bench import Bench


class _Sources:
    """The bench's kernels, where a launcher asks a library for them."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def kernel(
        self, file: str, name: str, defines: Mapping[str, int | str] | None = None
    ) -> Kernel:
        return self.bench.kernel(file, name, **(defines or {}))


def library(bench: Bench) -> Library:
    """What a launcher takes its kernels from: the changed copy where a file is the bug's."""
    return cast(Library, _Sources(bench))
