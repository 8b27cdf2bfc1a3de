"""Passes of a model on a bench that several models are held to."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowgraph.capture import GraphStep, StepReport
from lowgraph.memory import download
from lowgraph.train.plan import Schedule
from tests.models.bench import Bench
from tests.models.cases import scheduled_rate

Array = npt.NDArray[Any]


def assert_captured_equals_eager(bench: Bench, inputs: Array, targets: Array) -> StepReport:
    """Two replays of a pass leave the gradients of the pass without a graph, bit for bit."""
    rig, flat = bench.rig, bench.model.gradients.flat
    given = bench.put("inputs", inputs), bench.put("targets", targets)

    def body(stream: int) -> None:
        bench.pool.give_back(bench.pass_over(*given))

    step = GraphStep(
        body, device=rig.device, pool=bench.pool, stream=rig.stream, library=rig.library
    )
    step()
    eager = download(flat, rig.stream)
    for _ in range(2):
        bench.model.gradients.zero(rig.stream)
        step()
        np.testing.assert_array_equal(download(flat, rig.stream), eager)
    report = step.report()
    step.close()
    assert (report.replays, report.refusals) == (2, 0)
    return report


def assert_a_second_loss_leaves_nothing(bench: Bench, inputs: Array, targets: Array) -> None:
    """`loss_and_gradient` twice on a trace: the pool holds no more behind it than after once."""
    model, stream = bench.model, bench.rig.stream
    given, wanted = bench.put("inputs", inputs), bench.put("targets", targets)
    slices = []
    for times in (1, 2):  # the first pass also takes what lasts
        trace = model.forward(stream, given)
        for _ in range(times):
            bench.pool.give_back(model.loss_and_gradient(stream, trace, wanted))
        model.backward(stream, trace)
        slices.append(bench.pool.stats().slices)
    assert slices[0] == slices[1]


def assert_vectors_do_not_decay(bench: Bench) -> None:
    """A step with no gradient at all shrinks matrices, and leaves every vector as it is."""
    before = bench.model.state(bench.rig.stream)
    schedule = Schedule(steps=4, warmup=0, learning_rate=0.1, batch=1, weight_decay=0.5)
    control = bench.put("control", schedule.control_block(0))
    bench.clock.advance(bench.rig.stream, control)
    bench.norm.measure(bench.rig.stream, bench.model.gradients, control)
    bench.optimizer.step(bench.rig.stream, control, bench.norm.stats)
    after = bench.model.state(bench.rig.stream)
    kept = np.float32(1 - scheduled_rate(schedule, 1) * 0.5)
    for name, value in before.items():
        factor = kept if value.ndim > 1 else np.float32(1)
        np.testing.assert_allclose(after[name], value * factor, rtol=1e-6, err_msg=name)
