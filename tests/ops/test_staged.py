"""Staged batches: the slot that the counter names is copied, and nothing beside it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from lowgraph.driver import memory
from lowgraph.errors import ConfigError
from lowgraph.ops import Control, EvaluationRecord, StagedCopy
from lowgraph.ops.control import STEP_OFFSET, control_bytes, new_control
from tests.ops.compare import Array, in_place, normal, output
from tests.support.rig import Rig

Pinned = Callable[[Array], tuple[Array, int]]


@pytest.fixture
def pinned(rig: Rig) -> Iterator[Pinned]:
    """Copies an array into mapped pinned memory: the host's array and the device's address."""
    pointers = []

    def put(values: Array) -> tuple[Array, int]:
        pointers.append(memory.host_alloc(values.nbytes))
        raw = (ctypes.c_ubyte * values.nbytes).from_address(pointers[-1])
        array = np.frombuffer(raw, values.dtype).reshape(values.shape)
        array[...] = values
        return array, memory.host_device_pointer(pointers[-1])

    yield put
    rig.sync()
    for pointer in pointers:
        memory.host_free(pointer)


def staged_copy(ring: Array, counter: int) -> Array:
    """The twin, an element at a time."""
    slots, elements = ring.shape
    out = np.empty(elements, np.float32)
    for i in range(elements):
        out[i] = ring[counter % slots][i]
    return out


# Around the four elements of a load, the 512 of a half block and the 1024 of a block.
@pytest.mark.parametrize("elements", [4, 508, 512, 516, 1020, 1024, 1028, 1540, 3076])
@pytest.mark.parametrize(
    ("slots", "counter", "ahead"), [(1, 7, 0), (4, 3, 1), (4, 4, 0), (3, 2**40 + 1, 2)]
)
def test_the_slot_of_the_counter_is_copied(
    rig: Rig, pinned: Pinned, elements: int, slots: int, counter: int, ahead: int
) -> None:
    values = normal(elements + slots, slots, elements)
    _, address = pinned(values)
    out = output(rig, elements)
    count = rig.put(np.array([counter], np.int64))
    StagedCopy(rig.library).forward(rig.stream, out, address, count, elements, slots, ahead=ahead)
    np.testing.assert_array_equal(out.get(), staged_copy(values, counter + ahead))


def test_a_launch_reads_what_the_host_wrote_last(rig: Rig, pinned: Pinned) -> None:
    """By the step of a control block, one launch after the other over the same two slots."""
    ring, address = pinned(np.zeros((2, 8), np.float32))
    control = rig.put(control_bytes(new_control(total_steps=10, lr_max=1.0)))
    copy, advance = StagedCopy(rig.library), Control(rig.library)
    for step in range(1, 6):
        ring[step % 2] = step
        out = output(rig, 8)
        advance.advance(rig.stream, control)
        copy.forward(rig.stream, out, address, control.address + STEP_OFFSET, 8, 2)
        np.testing.assert_array_equal(out.get(), np.full(8, step, np.float32))


def test_nothing_staged_is_nothing_launched(rig: Rig) -> None:
    StagedCopy(rig.library).forward(rig.stream, 0, 0, 0, 0, 4)
    rig.sync()


@pytest.mark.parametrize("elements", [-4, 1, 33])
def test_elements_that_are_no_quads_are_refused(rig: Rig, elements: int) -> None:
    with pytest.raises(ConfigError, match=f"multiple of 4 and at least 0, got {elements}"):
        StagedCopy(rig.library).forward(rig.stream, 0, 0, 0, elements, 4)


def test_a_slot_behind_the_counter_is_refused(rig: Rig) -> None:
    with pytest.raises(ConfigError, match="ahead must be 0 to"):
        StagedCopy(rig.library).forward(rig.stream, 0, 0, 0, 4, 4, ahead=-1)


def test_no_slot_is_refused(rig: Rig) -> None:
    with pytest.raises(ConfigError, match="slots must be 1 to"):
        StagedCopy(rig.library).forward(rig.stream, 0, 0, 0, 4, 0)


@pytest.mark.parametrize("slots", [1, 5])
def test_losses_are_kept_in_their_order_and_no_further(rig: Rig, slots: int) -> None:
    """One record more than there are slots: it is dropped, and the cursor stays."""
    losses, cursor = output(rig, slots), in_place(rig, np.zeros(1, np.int64))
    values = [float(number) for number in range(slots + 1)]
    record = EvaluationRecord(rig.library)
    for value in values:
        loss = rig.put(np.array([value], np.float32))
        record.write(rig.stream, losses, cursor, loss, slots)
    np.testing.assert_array_equal(losses.get(), np.array(values[:-1], np.float32))
    assert cursor.get().tolist() == [slots]
