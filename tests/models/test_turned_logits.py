"""Logits that a loss turned into their gradient are not read as logits, nor before it as one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.memory import download
from lowgraph.models import (
    CharLM,
    CharLMConfig,
    Mamba2LM,
    Mamba2LMConfig,
    Mlp,
    MlpConfig,
    mamba2_parameters,
    mlp,
    parameters,
)
from lowgraph.precision import Precision
from tests.models.bench import Bench
from tests.support.rig import Rig

pytestmark = pytest.mark.both

TEXT = CharLMConfig(9, 16, 2, 2, vocabulary=31)
LONG = Mamba2LMConfig(16, 9, 2, 31, 2, 8, 8, 4)
ROWS = MlpConfig(7, 33, 2, 5)
MODELS: dict[str, tuple[Any, Any, Any]] = {
    "charlm": (CharLM, TEXT, parameters.initial_values(TEXT, 1)),
    "mamba2-lm": (Mamba2LM, LONG, mamba2_parameters.initial_values(LONG, 1)),
    "mlp": (Mlp, ROWS, mlp.initial_values(ROWS, 1)),
}


@pytest.fixture(params=[Precision.FP32, Precision.BF16])
def precision(request: pytest.FixtureRequest) -> Precision:
    found: Precision = request.param
    return found


@pytest.fixture(params=MODELS)
def bench(rig: Rig, request: pytest.FixtureRequest, precision: Precision) -> Iterator[Bench]:
    model, config, weights = MODELS[request.param]
    made = Bench(rig, config, weights, model, precision)
    yield made
    made.close()


def _batch(bench: Bench) -> tuple[Any, Any]:
    """Inputs and targets on the device."""
    draw, config = np.random.default_rng(3), bench.model.config
    if isinstance(config, MlpConfig):
        inputs: Any = draw.standard_normal((33, 1, config.features)).astype(np.float32)
        targets = draw.integers(0, config.classes, (33, 1), dtype=np.int32)
    else:
        shape = (3, config.context)
        inputs, targets = draw.integers(0, config.vocabulary, (2, *shape), dtype=np.int32)
    return bench.put("inputs", inputs), bench.put("targets", targets)


def test_logits_are_turned_once(bench: Bench) -> None:
    """The second time they were the gradient of a gradient, and the loss that of a gradient."""
    model, stream = bench.model, bench.rig.stream
    inputs, targets = _batch(bench)
    with bench.pool.eager_pass("step"):
        trace = model.forward(stream, inputs)
        loss = download(model.loss(stream, trace, targets), stream)
        turned = download(model.loss_and_gradient(stream, trace, targets), stream)
        gradient = download(trace.logits, stream)
        for again in (model.loss, model.loss_and_gradient):
            with pytest.raises(ConfigError, match=r"hold their gradient .*: call forward again"):
                again(stream, trace, targets)
        np.testing.assert_array_equal(download(trace.logits, stream), gradient)
        model.backward(stream, trace)
    np.testing.assert_array_equal(turned, loss)
    found = download(model.gradients.flat, stream)
    with bench.pool.eager_pass("step"):
        bench.pass_over(inputs, targets)
    np.testing.assert_array_equal(found, download(model.gradients.flat, stream))


def test_logits_are_no_gradient_before_the_loss(bench: Bench) -> None:
    """They were taken for one: gradients like any others."""
    model, stream = bench.model, bench.rig.stream
    inputs, targets = _batch(bench)
    with bench.pool.eager_pass("step"):
        trace = model.forward(stream, inputs)
        model.loss(stream, trace, targets)
        before = bench.pool.stats().takes
        with pytest.raises(ConfigError, match="after loss_and_gradient: call that with the trace"):
            model.backward(stream, trace)
        assert bench.pool.stats().takes == before
        model.loss_and_gradient(stream, trace, targets)
        model.backward(stream, trace)
