from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lowgraph.driver import memory
from lowgraph.ops import Control, LossRing
from lowgraph.ops.control import control_bytes, new_control
from lowgraph.ops.grad_norm import new_stats, stats_bytes
from lowgraph.ops.loss_ring import RECORD_DTYPE, clear_ring, read_ring
from tests.ops.compare import Array
from tests.support.rig import Rig

SLOTS = 4


@pytest.fixture
def ring(rig: Rig) -> Iterator[tuple[Array, int]]:
    """A cleared ring in mapped pinned memory, as the host's array and the device's address."""
    pointer = memory.host_alloc(SLOTS * RECORD_DTYPE.itemsize)
    raw = (ctypes.c_ubyte * (SLOTS * RECORD_DTYPE.itemsize)).from_address(pointer)
    records = np.frombuffer(raw, RECORD_DTYPE)
    clear_ring(records)
    yield records, memory.host_device_pointer(pointer)
    rig.sync()
    memory.host_free(pointer)


def run_steps(rig: Rig, address: int, losses: list[float]) -> None:
    control = rig.put(control_bytes(new_control(total_steps=100, warmup_steps=100, lr_max=1.0)))
    loss: Any = None
    for value in losses:
        loss = rig.put(np.array([value], np.float32))
        stats = new_stats()
        stats["norm"], stats["masked"] = 1e40 * value, 2**40 + int(value)
        Control(rig.library).advance(rig.stream, control)
        LossRing(rig.library).write(
            rig.stream, address, loss, rig.put(stats_bytes(stats)), control, SLOTS
        )
    rig.sync()


def test_the_last_steps_can_be_read(rig: Rig, ring: tuple[Array, int]) -> None:
    records, address = ring
    assert read_ring(records, 1) is None

    run_steps(rig, address, [float(step) for step in range(1, 7)])

    for step in (3, 4, 5, 6):
        record = read_ring(records, step)
        assert record is not None
        assert (record.step, record.loss) == (step, float(step))
        assert record.lr == np.float32(step / 100)
        assert (record.norm, record.masked) == (1e40 * step, 2**40 + step), "past float32 and int"
    assert read_ring(records, 2) is None, "step 6 took its slot"
    assert read_ring(records, 7) is None, "not yet written"


@pytest.mark.parametrize("overwritten_at", ["loss", "lr", "norm", "masked"])
def test_a_record_overwritten_while_it_is_read_is_not_returned(
    ring: tuple[Array, int], overwritten_at: str
) -> None:
    """The writer takes the tag away first; a reader in between must not pair old tag, new loss."""
    records, _ = ring
    records[1] = (5, 1.5, 0, 0.25, 0.5)

    class Overwritten:
        """A ring whose record loses its tag when a value is read."""

        def __len__(self) -> int:
            return SLOTS

        def __getitem__(self, field: str) -> Array:
            column = records[field].copy()
            if field == overwritten_at:
                records["step"][1] = -1
            return column

    assert read_ring(Overwritten(), 5) is None  # type: ignore[arg-type]
