"""Arrays of other libraries as the tests make them up: any device, any structure."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowgraph.driver import current
from lowgraph.memory.dlpack import capsule_of


class Exporter:
    """An array of somebody else's over memory of the device; it counts who let go of it.

    versioned: whether it knows `max_version`. asked: the keywords of each `__dlpack__`.
    """

    def __init__(self, piece: Any, versioned: bool = True) -> None:
        self.address, self.shape, self.dtype = piece.address, piece.shape, piece.dtype
        self.versioned = versioned
        self.place = current().dlpack_device
        self.asked: list[dict[str, Any]] = []
        self.let_go = 0

    def export(self) -> Foreign:
        """The array: it has no address of its own, as foreign ones."""
        return Foreign(self)

    def end(self) -> None:
        self.let_go += 1


class Foreign:
    def __init__(self, exporter: Exporter) -> None:
        self.exporter = exporter
        self.shape = exporter.shape

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.exporter.place

    def __dlpack__(self, **options: Any) -> object:
        one = self.exporter
        if not one.versioned and "max_version" in options:
            raise TypeError("unexpected keyword max_version")
        one.asked.append(options)
        return capsule_of(one.address, one.shape, np.dtype(one.dtype), one.place,
                          versioned=one.versioned, end=one.end)  # fmt: skip


class Interface:
    """An array with `__cuda_array_interface__` only."""

    def __init__(self, piece: Any, **changes: Any) -> None:
        self.__cuda_array_interface__ = {**piece.__cuda_array_interface__, **changes}
