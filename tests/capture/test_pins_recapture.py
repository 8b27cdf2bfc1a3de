"""Pins over a recapture, good or refused; and the copy kernel of a copy-in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.capture import Input, Table
from lowgraph.errors import InputMoved, SyncDuringCapture
from tests.capture.moving import BLOCKS, GAIN, KINDS, WALK, Moving, N
from tests.ops.compare import output
from tests.support.rig import Rig


def test_a_recapture_follows_a_moved_input(moving: Moving) -> None:
    """What InputMoved offers last: record anew, where the input is now."""
    declared = Input("x", moving.source)
    step = moving.step(inputs=[declared])
    moving.run(step, [0, 0, 0])
    moving.at = 1
    with pytest.raises(InputMoved):
        step()
    step.recapture()
    assert moving.run(step, [1, 1]) == 40.0
    moving.at = 0
    with pytest.raises(InputMoved):
        step()


@pytest.mark.parametrize("kind", KINDS)
def test_a_recapture_keeps_the_pins(moving: Moving, kind: Any) -> None:
    _, step = moving.ready(kind)
    moving.run(step, [1, 2])
    step.recapture()
    assert moving.run(step, WALK) == GAIN
    step.recapture(free_first=True)
    assert moving.run(step, WALK) == GAIN


@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_recapture_leaves_the_pins_of_the_live_graph(moving: Moving, kind: Any) -> None:
    pin, kernel = kind("x", moving.source), moving.add_table if kind is Table else moving.add
    good = [True]

    def body(stream: int) -> None:
        kernel(stream, BLOCKS, 128, moving.y, pin, N)
        if not good[0]:
            driver.stream.synchronize(stream)

    step = moving.step(pin, body=body)
    moving.run(step, [0, 0, 1])
    good[0], moving.at = False, 2
    with pytest.raises(SyncDuringCapture):
        step.recapture()
    assert moving.run(step, WALK) == GAIN
    assert step.report().replays == 2 + len(WALK) and step.report().refusals == 1


def test_a_refused_recapture_leaves_an_input_where_the_graph_reads_it(moving: Moving) -> None:
    declared, good = Input("x", moving.source), [True]

    def body(stream: int) -> None:
        moving.add(stream, BLOCKS, 128, moving.y, declared, N)
        if not good[0]:
            driver.stream.synchronize(stream)

    step = moving.step(inputs=[declared], body=body)
    moving.run(step, [0, 0])
    good[0], moving.at = False, 1
    with pytest.raises(SyncDuringCapture):
        step.recapture()
    with pytest.raises(InputMoved):
        step()
    assert moving.run(step, [0]) == 2.0


@pytest.mark.parametrize("size", [1, 15, 16, 17, 2047, 2048, 2049, 5000])
@pytest.mark.parametrize("offset", [0, 1, 16])
def test_the_copy_kernel_copies_every_byte_and_no_other(rig: Rig, size: int, offset: int) -> None:
    data = np.random.default_rng(size).integers(0, 255, size + offset).astype(np.uint8)
    source, out = rig.put(data), output(rig, size, dtype=np.uint8)
    copy = rig.library.kernel("copy.cu", "copy_bytes")
    copy(rig.stream, -(-size // 2048), 128, out, source.address + offset, size)
    assert (out.get() == data[offset:]).all(), "0xFF, which the data has not, is what was left out"
    assert (rig.get(source) == data).all()
