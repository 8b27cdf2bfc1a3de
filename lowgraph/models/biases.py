"""The gradients of a model's biases, beside the products of its layers.

A library's product that sums them as well launches a kernel of its own for each, of as many blocks
as there are columns of 16 bytes. Here two layers share a launch that has work for every
multiprocessor, and one launch at the end of the pass adds up what all have left.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowgraph import ops
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool, Slice, upload
from lowgraph.precision import Precision

__all__ = ["Biases"]


class Biases:
    """Of the layers `names`, two a launch: columns of one workspace in this order."""

    def __init__(
        self,
        library: Library,
        pool: PersistentPool,
        gradients: Arena,
        names: Sequence[str],
        precision: Precision,
        stream: int,
    ) -> None:
        """Takes memory that lasts, and fills it on `stream`."""
        self._sums = ops.BiasSums(library, precision)
        self._pool = pool
        self._gradients = gradients.those(f"{name}.bias" for name in names)
        widths = [gradients[f"{name}.bias"].elements for name in names]
        begins = np.cumsum([0, *widths])
        self._columns = dict(zip(names, begins.tolist(), strict=False))
        self._places = pool.take("bias places", (int(begins[-1]),), np.int32, lasting=True)
        offsets = [gradients.offset(f"{name}.bias") for name in names]
        places = [at + np.arange(width) for at, width in zip(offsets, widths, strict=True)]
        upload(self._places, np.concatenate(places).astype(np.int32), stream)

    def room(self, rows: int) -> Slice:
        """The workspace of a backward pass: [chunks of rows, columns]."""
        return self._pool.take("bias sums", (self._sums.chunks(rows).chunks, self._columns_all))

    def pair(self, stream: int, room: Slice, name: str, dy: Slice, dz: Slice) -> None:
        """Sums of dy, the gradient of the output of `name`, and of dz, of the layer behind it."""
        first, (rows, channels) = self._columns[name], dy.shape
        into = room.part(first, (room.elements - first,))
        self._sums.pair(stream, into, dy, channels, dz, dz.shape[1], rows, stride=self._columns_all)

    def finish(self, stream: int, room: Slice, rows: int) -> None:
        """Overwrite the gradients of all."""
        self._sums.finish(stream, self._gradients, room, self._places, rows, self._columns_all)

    @property
    def _columns_all(self) -> int:
        return self._places.elements
