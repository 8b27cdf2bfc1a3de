"""Accumulation under a whole model: micro-batches against one batch of all their windows."""

from __future__ import annotations

import numpy as np
import pytest

from lowgraph.memory import download
from lowgraph.models import CharLMConfig
from lowgraph.models.model import save_arena
from lowgraph.optim import Accumulation
from tests.models import reference
from tests.models.bench import Array, Bench
from tests.models.cases import batch_of, perturbed
from tests.models.oracle import compare, split_key_bias, worst
from tests.support.rig import Rig

pytestmark = pytest.mark.both

CONFIG = CharLMConfig(9, 12, 3, 2, 61)


def oracle(tokens: Array, targets: Array, dtype: str) -> tuple[float, dict[str, Array]]:
    weights = {name: value.astype(dtype) for name, value in perturbed(CONFIG, 1).items()}
    loss, found = reference.loss_and_gradients(CONFIG, weights, tokens, targets)
    return loss, {name: value.astype(np.float64) for name, value in found.items()}


@pytest.mark.parametrize(("count", "batch"), [(2, 3), (3, 1)])
def test_micro_batches_have_the_gradients_of_one_batch(rig: Rig, count: int, batch: int) -> None:
    tokens, targets = batch_of(CONFIG, count * batch, seed=2)
    bench = Bench(rig, CONFIG, perturbed(CONFIG, 1))
    total = Accumulation(rig.library, bench.model.gradients, count)
    with bench.pool.eager_pass("step"):
        # As a step would: all windows drawn at once, each micro-batch a part of them.
        whole = bench.put("tokens", tokens), bench.put("targets", targets)
        shape = (batch, CONFIG.context)
        for index in range(count):
            first = index * batch * CONFIG.context
            loss = bench.pass_over(*(piece.part(first, shape) for piece in whole))
            total.add(rig.stream, bench.model.gradients, loss, index)
        mean_loss = float(download(total.loss, rig.stream)[0])
    found = save_arena(total.gradients, rig.stream)
    bench.close()

    ours = {name: gradient.astype(np.float64) for name, gradient in found.items()}
    want_loss, double = oracle(tokens, targets, "float64")
    _, single = oracle(tokens, targets, "float32")
    assert mean_loss == pytest.approx(want_loss, rel=1e-6)
    nearest = worst(compare(*map(split_key_bias, (ours, single, double))))
    assert nearest.excess <= 1, f"worst tensor {nearest}"
