"""`evaluate`: the bits of forward and loss, with the activations of one block at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lowgraph.memory import PersistentPool, Slice, download
from lowgraph.models import CharLM, CharLMConfig
from lowgraph.precision import Precision
from tests.models.bench import Bench
from tests.models.cases import batch_of, perturbed
from tests.support.closing import all_closed
from tests.support.rig import Rig

pytestmark = pytest.mark.both

CONFIG = CharLMConfig(context=11, width=16, heads=2, layers=3, vocabulary=264)
Make = Callable[..., Bench]


@pytest.fixture
def make(rig: Rig) -> Iterator[Make]:
    def build(precision: Precision, loss_rows: int | None) -> Bench:
        def model(config: Any, **given: Any) -> CharLM:
            return CharLM(config, **given, loss_rows=loss_rows)

        return Bench(rig, CONFIG, perturbed(CONFIG, 1), model, precision)

    with all_closed(build) as make:
        yield make


def _pass(bench: Bench, run: Callable[[Slice, Slice], Slice]) -> tuple[float, int, int]:
    """The loss; bytes that the pass had at most, and slices that it left."""
    pool: PersistentPool = bench.pool
    with pool.eager_pass("pass") as running:
        tokens, targets = batch_of(CONFIG, 3, seed=2)
        given = bench.put("tokens", tokens), bench.put("targets", targets)
        loss = run(*given)
        value = float(download(loss, bench.rig.stream)[0])
        left = len([piece for piece in running.outstanding() if piece not in (*given, loss)])
    return value, running.figures.peak, left


@pytest.mark.parametrize("loss_rows", [None, 7])
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16])
def test_the_same_bits_in_less_memory(
    make: Make, rig: Rig, precision: Precision, loss_rows: int | None
) -> None:
    bench = make(precision, loss_rows)
    model, stream = bench.model, rig.stream
    whole = _pass(bench, lambda x, t: model.loss(stream, model.forward(stream, x), t))
    less = _pass(bench, lambda x, t: model.evaluate(stream, x, t))
    assert less[0] == whole[0]
    assert less[2] == 0 < whole[2], "all is given back but the loss"
    # Two of three blocks' activations; 33 rows of 16 channels, in units of 256 bytes.
    block = (whole[1] - less[1]) / 2
    itemsize = 4 if precision is Precision.FP32 else 2
    assert block >= 33 * 16 * (2 * 4 + 14 * itemsize) / 2
