"""A ring of records in mapped pinned memory (kernels_cu/loss_ring.cu): loss, rate, gradient norm.

The graph writes one record a step; the host reads them whenever it likes, without a sync.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, check_sizes

__all__ = ["RECORD_DTYPE", "LossRecord", "LossRing", "clear_ring", "read_ring"]

RECORD_DTYPE: np.dtype[Any] = np.dtype(
    [
        ("step", np.int64),
        ("norm", np.float64),
        ("masked", np.int64),
        ("loss", np.float32),
        ("lr", np.float32),
    ]
)
"""One record of the ring, 32 bytes; `step` is -1 while it is being written and before the first."""


class LossRecord(NamedTuple):
    """What a step left behind.

    step: its number. loss: in nats. lr: its learning rate. norm: global norm of its gradients
    before clipping. masked: elements of them that were not finite.
    """

    step: int
    loss: float
    lr: float
    norm: float
    masked: int


class LossRing:
    """Writes records."""

    def __init__(self, library: Library) -> None:
        """Take the kernel from `library`."""
        self._write = library.kernel("loss_ring.cu", "loss_ring_write")

    def write(
        self,
        stream: Stream,
        ring: Pointer,
        loss: Pointer,
        stats: Pointer,
        control: Pointer,
        slots: int,
    ) -> None:
        """Write record `step % slots`: loss [1], step and learning rate of control, norm of stats.

        ring: device address of `slots` records in mapped pinned memory. stats: of this step's
        gradients (`GradientNorm.measure`). One launch.
        """
        check_sizes("LossRing", least=1, slots=slots)
        self._write(stream, 1, 1, ring, loss, stats, control, slots)


def clear_ring(ring: np.ndarray[Any, np.dtype[Any]]) -> None:
    """Mark every record of a ring (an array of RECORD_DTYPE over its memory) as not written."""
    ring["step"] = -1


def read_ring(ring: np.ndarray[Any, np.dtype[Any]], step: int) -> LossRecord | None:
    """Return the record of `step`, or None if it is not there yet or no longer there.

    ring: an array of RECORD_DTYPE over the ring's memory. The tag is read before and after the
    values, so that a record overwritten in between is not mistaken for the one asked for.
    """
    slot = step % len(ring)
    if int(ring["step"][slot]) != step:
        return None
    values = {name: ring[name][slot].item() for name in LossRecord._fields if name != "step"}
    if int(ring["step"][slot]) != step:
        return None
    return LossRecord(step, **values)
