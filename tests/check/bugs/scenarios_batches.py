"""Scenarios of batches that the host stages, and of an evaluation's losses."""

from __future__ import annotations

import numpy as np

from lowgraph.ops import EvaluationRecord, StagedCopy
from tests.check.bugs.bench import Bench, Check
from tests.check.bugs.registry import scenario
from tests.check.bugs.sources import library
from tests.ops.compare import normal


@scenario
def evaluation(bench: Bench, fault: str) -> list[Check]:
    """Three slots and four batches, the last of which is not kept.

    Faults: the cursor is not set to zero; the second batch is sent to another stream, which nothing
    orders.
    """
    slots, numbers = 3, np.array([[2.5], [0.5], [1.5], [4.0]], np.float32)
    losses, cursor = bench.empty(slots, name="losses"), bench.empty(1, np.int64, "cursor")
    batches = [bench.put(number, "loss") for number in numbers]
    streams = [bench.stream] * len(batches)
    if fault == "second stream":
        streams[1] = bench.new_stream()
    if fault != "cursor not zeroed":
        bench.write(cursor, np.zeros(1, np.int64))
    record = EvaluationRecord(library(bench))
    for stream, loss in zip(streams, batches, strict=True):
        record.write(stream, losses, cursor, loss, slots)
    return [Check("losses", bench.get(losses), numbers[:slots, 0].astype(np.float64)),
            Check("cursor", bench.get(cursor), np.array([slots]))]  # fmt: skip


@scenario
def staged(bench: Bench, fault: str) -> list[Check]:
    """The fifth batch of a ring of three: two blocks, the second with 69 quads.

    Faults: the ring is a plain array of NumPy's; it lies 4 bytes off, behind a float.
    """
    slots, elements, number = 3, 1300, 4
    batches = normal(0, slots, elements)
    ring, address = bench.pinned(slots * elements + 4, np.float32)
    ring[: slots * elements] = batches.ravel()
    if fault == "plain array":
        address = batches.ctypes.data
    if fault == "behind a float":
        ring[1 : slots * elements + 1] = batches.ravel()
        address += 4
    out, counter = bench.empty(elements, name="out"), bench.put(np.array([number]), "counter")
    layer = StagedCopy(library(bench))
    layer.forward(bench.stream, out, address, counter, elements, slots)
    want = batches[number % slots].astype(np.float64)
    return [Check("out", bench.get(out), want)]
