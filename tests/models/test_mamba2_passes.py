"""What both Mamba-2 models promise of every pass, whatever they compute and in which precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from lowgraph import counters, ops
from lowgraph.capture import GraphStep
from lowgraph.errors import ConfigError
from lowgraph.memory import upload
from lowgraph.models.mamba2 import Mamba2
from lowgraph.models.mamba2_config import Mamba2Config, Mamba2LMConfig
from lowgraph.models.mamba2_lm import Mamba2LM
from lowgraph.models.mamba2_parameters import initial_values, parameter_specs
from lowgraph.precision import Precision
from lowgraph.train.plan import Schedule
from tests.models.bench import Bench
from tests.models.passes import assert_vectors_do_not_decay
from tests.support.closing import all_closed
from tests.support.rig import Rig

pytestmark = pytest.mark.both

pytest.importorskip("torch", reason="the oracle extra is not installed")
from tests.models.cases_mamba2 import batch_of, perturbed  # noqa: E402

Config = Mamba2Config | Mamba2LMConfig
Make = Callable[[Config, int], Bench]
MODELS: dict[type, Any] = {Mamba2Config: Mamba2, Mamba2LMConfig: Mamba2LM}
CONFIGS = [
    Mamba2Config(5, 24, 33, 2, 12, 7, 4, 3),
    Mamba2LMConfig(18, 33, 2, 61, 2, 12, 7, 4),
]
BATCH = 3
each = pytest.mark.parametrize("config", CONFIGS, ids=["mamba2", "mamba2-lm"])


@pytest.fixture(params=list(Precision), ids=str)
def make(rig: Rig, request: pytest.FixtureRequest) -> Iterator[Make]:
    def build(config: Config, seed: int) -> Bench:
        weights, model = perturbed(config, seed), MODELS[type(config)]
        return Bench(rig, config, weights, model, request.param)

    with all_closed(build) as make:
        yield make


@each
def test_every_gradient_is_overwritten(make: Make, config: Config) -> None:
    """NaN in all gradient memory before a pass leaves none behind; the bits repeat."""
    bench = make(config, 6)
    data = batch_of(config, BATCH, seed=7)
    first, once = bench.gradients(*data)
    for piece in bench.model.gradients.values():
        upload(piece, np.full(piece.shape, np.nan, np.float32), bench.rig.stream)
    second, again = bench.gradients(*data)
    assert first == second
    for name, value in once.items():
        np.testing.assert_array_equal(again[name], value, err_msg=name)


@each
def test_a_pass_takes_from_the_pool_alone_and_gives_back(make: Make, config: Config) -> None:
    bench = make(config, 8)
    inputs = [bench.put(*named) for named in zip("xy", batch_of(config, BATCH, 9), strict=True)]
    for _ in range(4):  # the first passes settle how free memory is cut up
        bench.pool.give_back(bench.pass_over(*inputs))
    bench.rig.sync()
    live = bench.pool.stats().slices
    with counters.scope() as counts:
        loss = bench.pass_over(*inputs)
    assert counts.launches > 0
    assert (counts.allocations, counts.frees, counts.copies, counts.fills) == (0, 0, 0, 0)
    assert (counts.syncs, counts.queries, counts.module_loads) == (0, 0, 0)
    assert bench.pool.stats().slices == live + 1
    bench.pool.give_back(loss)


@each
def test_the_whole_step_is_one_graph_and_the_same_bits(make: Make, config: Config) -> None:
    data = batch_of(config, BATCH, seed=3)
    schedule = Schedule(steps=6, warmup=1, learning_rate=1e-2, batch=BATCH)
    eager = make(config, 4)
    losses = eager.train([data] * schedule.steps, schedule)
    bench = make(config, 4)
    control = bench.put("control", schedule.control_block(0))
    inputs, targets = bench.put("inputs", data[0]), bench.put("targets", data[1])
    last = bench.pool.take("last loss", (1,))

    def body(stream: int) -> None:
        bench.clock.advance(stream, control)
        loss = bench.pass_over(inputs, targets)
        bench.norm.measure(stream, bench.model.gradients, control)
        bench.optimizer.step(stream, control, bench.norm.stats)
        copy_loss.add(stream, last, loss, zero, 1)
        bench.pool.give_back(loss)

    copy_loss, zero = ops.Residual(bench.rig.library), bench.put("zero", np.zeros(1, np.float32))
    found = []
    with GraphStep(
        body, device=bench.rig.device, pool=bench.pool, library=bench.rig.library,
        stream=bench.rig.stream,
    ) as step:  # fmt: skip
        for _ in range(schedule.steps):
            step()
            found.append(float(bench.rig.get(last)[0]))
        report = step.report()
    assert found == losses
    assert (report.captures, report.refusals, report.launches_replay_step) == (1, 0, 1)
    wanted = eager.model.state(eager.rig.stream)
    for name, value in bench.model.state(bench.rig.stream).items():
        np.testing.assert_array_equal(value, wanted[name], err_msg=name)


@each
def test_the_loss_alone_is_the_loss(make: Make, config: Config) -> None:
    """And leaves the logits as they are, those that a trace keeps and those that it can make."""
    bench = make(config, 2)
    stream, data = bench.rig.stream, batch_of(config, BATCH, seed=3)
    wanted, _ = bench.gradients(*data)
    with bench.pool.eager_pass("loss"):
        inputs, targets = bench.put("inputs", data[0]), bench.put("targets", data[1])
        trace = bench.model.forward(stream, inputs)
        before = bench.rig.get(_logits(bench, trace))
        loss = bench.rig.get(bench.model.loss(stream, trace, targets))[0]
        # Of one logit a row both losses are sums in float64, in two orders.
        most = 2.0**-23 if isinstance(bench.model, Mamba2) else 0.0
        assert loss == pytest.approx(wanted, rel=most, abs=0.0)
        np.testing.assert_array_equal(bench.rig.get(_logits(bench, trace)), before)


def _logits(bench: Bench, trace: Any) -> Any:
    if isinstance(bench.model, Mamba2):
        return bench.model.logits(bench.rig.stream, trace)
    return trace.logits


@each
def test_vectors_do_not_decay(make: Make, config: Config) -> None:
    """With no gradient at all a step only decays: matrices shrink, all other tensors stay."""
    bench = make(config, 5)
    assert_vectors_do_not_decay(bench)


@each
def test_state_comes_back_and_a_wrong_one_is_refused(make: Make, config: Config) -> None:
    bench = make(config, 1)
    stream, model = bench.rig.stream, bench.model
    weights = initial_values(config, seed=2)
    model.load_state(weights, stream)
    for name, value in model.state(stream).items():
        np.testing.assert_array_equal(value, weights[name])
    specs = parameter_specs(config)
    assert list(model.parameters) == [spec.name for spec in specs]
    assert model.parameter_count == sum(spec.elements for spec in specs)
    last = specs[-1].name
    with pytest.raises(ConfigError, match=rf"missing \['{last}'\], unknown \['other'\]"):
        wrong = {name: value for name, value in weights.items() if name != last}
        model.load_state({**wrong, "other": weights[last]}, stream)
    with pytest.raises(ConfigError, match=rf"{last} has shape \(2, 9\), the model wants"):
        model.load_state({**weights, last: np.zeros((2, 9), np.float32)}, stream)
