"""Arrays of other libraries as the tests make them up: any device, any structure."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowgraph.driver import current
from lowgraph.memory.dlpack import Lent, lend


class Exporter:
    """An array of somebody else's over memory of the device; it counts who let go of it.

    versioned: whether it knows `max_version`. asked: the keywords of each `__dlpack__`.
    """

    def __init__(self, piece: Any, versioned: bool = True) -> None:
        self.address, self.shape, self.dtype = piece.address, piece.shape, piece.dtype
        self.versioned = versioned
        self.place = current().dlpack_device
        self.asked: list[dict[str, Any]] = []
        self._lent: list[Lent] = []
        self._over = 0

    def export(self) -> Foreign:
        """The array: it has no address of its own, as foreign ones."""
        return Foreign(self)

    def lend(self) -> object:
        lent = lend(self.address, self.shape, np.dtype(self.dtype), self.place,
                    versioned=self.versioned)  # fmt: skip
        self._lent.append(lent)
        return lent.capsule

    @property
    def let_go(self) -> int:
        """Capsules that are over."""
        over = [lent for lent in self._lent if lent.is_over()]
        self._lent = [lent for lent in self._lent if lent not in over]
        self._over += len(over)
        return self._over


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
        return one.lend()


class Interface:
    """An array with `__cuda_array_interface__` only."""

    def __init__(self, piece: Any, **changes: Any) -> None:
        self.__cuda_array_interface__ = {**piece.__cuda_array_interface__, **changes}
