"""Arena: many tensors in one flat slice, so that one launch reaches all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lowgraph.errors import PoolError
from lowgraph.memory.free_list import ALIGNMENT
from lowgraph.memory.pool import PersistentPool
from lowgraph.memory.slices import Slice
from lowgraph.memory.staging import fill_zero
from lowgraph.specs import TensorSpec

__all__ = ["Arena", "Layout", "Scattered", "plan"]


@dataclass(frozen=True)
class Layout:
    """Where each tensor lies: element offsets in the order of the specs, and the elements in all.

    `padding`: elements between tensors, which belong to none.
    """

    offsets: tuple[int, ...]
    elements: int
    padding: int


def plan(specs: Sequence[TensorSpec]) -> Layout:
    """Lay tensors one behind the other, each at a multiple of 256 bytes.

    Raises PoolError for no tensor, two of one name, or more than one dtype.
    """
    if not specs:
        raise PoolError("an arena needs at least one tensor")
    names = [spec.name for spec in specs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PoolError(f"tensors of one arena need names of their own; twice: {', '.join(twice)}")
    dtypes = {spec.dtype for spec in specs}
    if len(dtypes) > 1:
        raise PoolError(f"an arena has one dtype, not {', '.join(sorted(map(str, dtypes)))}")
    unit = max(1, ALIGNMENT // specs[0].dtype.itemsize)
    offsets, end = [], 0
    for spec in specs:
        offsets.append(end)
        end += -(-spec.elements // unit) * unit
    return Layout(tuple(offsets), end, end - sum(spec.elements for spec in specs))


@dataclass(frozen=True)
class Scattered:
    """Parts of one slice, as an argument of a kernel that finds them by offsets from its begin.

    The kernel is given the address of `flat`; an audit takes it to touch no more than the parts.
    """

    flat: Slice
    parts: tuple[Slice, ...]

    @property
    def address(self) -> int:
        """Of `flat`."""
        return self.flat.address

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of `flat`."""
        return self.flat.dtype


class Arena(Mapping[str, Slice]):
    """A mapping from tensor name to its slice; `flat` is the whole, padding included.

    Padding is not zeroed: call `zero` before a kernel that runs over `flat` reads it.
    """

    def __init__(
        self,
        pool: PersistentPool,
        name: str,
        specs: Sequence[TensorSpec],
        layout: Layout | None = None,
    ) -> None:
        """Take its memory. layout: of another arena of these tensors; its own if None."""
        self.pool = pool
        self.name = name
        self.specs = tuple(specs)
        self.layout = plan(self.specs) if layout is None else layout
        self.flat = pool.take(name, (self.layout.elements,), self.specs[0].dtype)
        self._parts = {
            spec.name: self.flat.part(offset, spec.shape, f"{name}.{spec.name}")
            for spec, offset in zip(self.specs, self.layout.offsets, strict=True)
        }

    def __getitem__(self, name: str) -> Slice:
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def elements(self) -> int:
        """Elements of `flat`, padding included."""
        return self.layout.elements

    def offset(self, name: str) -> int:
        """First element of a tensor in `flat`."""
        return self.layout.offsets[list(self._parts).index(name)]

    def like(self, name: str, dtype: npt.DTypeLike | None = None) -> Arena:
        """A second arena of the same layout: gradients or moments beside parameters.

        dtype: of its elements, each at the same place of `flat`; this arena's if None.
        """
        wanted = self.specs[0].dtype if dtype is None else np.dtype(dtype)
        specs = [replace(spec, dtype=wanted) for spec in self.specs]
        return Arena(self.pool, name, specs, self.layout)

    def those(self, names: Iterable[str]) -> Scattered:
        """Some of its tensors, for a kernel that finds them by offsets from the begin of `flat`."""
        return Scattered(self.flat, tuple(self._parts[name] for name in names))

    def zero(self, stream: int) -> None:
        """Enqueue zeros over the whole arena."""
        fill_zero(self.flat, stream)

    def close(self) -> None:
        """Give the memory back. Idempotent."""
        if self.flat.alive:
            self.pool.give_back(self.flat)
