"""The head and the loss by chunks of rows: the whole loss and its gradients, to rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lowgraph.capture import GraphStep, Phase
from lowgraph.errors import ConfigError
from lowgraph.memory import download
from lowgraph.models import CharLM, CharLMConfig
from lowgraph.models.model import save_arena
from lowgraph.models.token_layers import rows_at_once
from lowgraph.precision import Precision
from tests.models import reference
from tests.models.bench import Bench
from tests.models.cases import batch_of, perturbed
from tests.models.oracle import compare, split_key_bias, worst
from tests.models.passes import assert_a_second_loss_leaves_nothing
from tests.support.closing import all_closed
from tests.support.rig import Rig

Array = npt.NDArray[Any]
Make = Callable[..., Bench]

# 33 rows; with BF16 what products read begins at multiples of 16 bytes, so widths are of 8.
CONFIG = CharLMConfig(context=11, width=16, heads=2, layers=1, vocabulary=264)
ROWS = 33
CHUNKS = [1, 7, 16, 31, 32]  # of 33 rows: all but 1 leave a smaller last one


@pytest.fixture
def make(rig: Rig) -> Iterator[Make]:
    def build(loss_rows: int | None, precision: Precision = Precision.FP32) -> Bench:
        def model(config: Any, **given: Any) -> CharLM:
            return CharLM(config, **given, loss_rows=loss_rows)

        return Bench(rig, CONFIG, perturbed(CONFIG, 1), model, precision)

    with all_closed(build) as make:
        yield make


@pytest.mark.both
@pytest.mark.parametrize("chunk", CHUNKS)
def test_loss_and_gradients_are_those_of_float64(make: Make, chunk: int) -> None:
    weights, (tokens, targets) = perturbed(CONFIG, 1), batch_of(CONFIG, 3, seed=2)
    found = {}
    for kind in ("float32", "float64"):
        cast = {name: value.astype(kind) for name, value in weights.items()}
        found[kind] = reference.loss_and_gradients(CONFIG, cast, tokens, targets)
    (_, single), (double_loss, double) = found["float32"], found["float64"]
    loss, ours = make(chunk).gradients(tokens, targets)
    assert loss == pytest.approx(double_loss, rel=1e-6)
    as_double = [{n: g.astype(np.float64) for n, g in each.items()} for each in (single, double)]
    nearest = worst(compare(*map(split_key_bias, (ours, *as_double))))
    assert nearest.excess <= 1, f"worst tensor {nearest}"


@pytest.mark.both
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16])
def test_only_the_heads_weight_is_summed_in_another_order(make: Make, precision: Precision) -> None:
    """Each row's loss is its own: the same bits. Its gradient's products are of fewer rows."""
    batch = batch_of(CONFIG, 3, seed=2)
    whole_loss, whole = make(None, precision).gradients(*batch)
    for chunk in CHUNKS:
        loss, ours = make(chunk, precision).gradients(*batch)
        # A sum of 33 terms in float32, in two orders, each term at most as large as the largest.
        room = ROWS * 2.0**-23 * np.abs(whole["hd.weight"]).max() * 8
        assert loss == pytest.approx(whole_loss, rel=1e-6)
        assert np.abs(ours["hd.weight"] - whole["hd.weight"]).max() <= room
        # One unit of the operand type more where a product of fewer rows sums in other pieces.
        unit = 2.0**-7 if precision is Precision.BF16 else 1e-5
        for name, gradient in ours.items():
            scale = np.abs(whole[name]).max()
            assert np.abs(gradient - whole[name]).max() <= unit * scale + 1e-12, name


@pytest.mark.both
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16])
def test_captured_equals_eager_and_repeats_bit_for_bit(
    make: Make, rig: Rig, precision: Precision
) -> None:
    bench = make(7, precision)
    batch = batch_of(CONFIG, 3, seed=2)
    tokens, targets = bench.put("tokens", batch[0]), bench.put("targets", batch[1])
    seen: list[dict[str, Array]] = []
    with bench.pool.eager_pass("eager"):
        bench.pass_over(tokens, targets)
    seen.append(save_arena(bench.model.gradients, rig.stream))
    step = GraphStep(
        lambda stream: bench.pool.give_back(bench.pass_over(tokens, targets)),
        device=rig.device, pool=bench.pool, library=rig.library, stream=rig.stream,
    )  # fmt: skip
    for _ in range(4):
        bench.model.gradients.zero(rig.stream)
        step()
        seen.append(save_arena(bench.model.gradients, rig.stream))
    assert step.phase is Phase.READY, step.report().first_refusal
    step.close()
    for other in seen[1:]:
        for name, gradient in seen[0].items():
            np.testing.assert_array_equal(gradient, other[name], err_msg=name)


@pytest.mark.both
def test_the_loss_alone_is_the_same_and_fewer_logits_are_there(make: Make, rig: Rig) -> None:
    tokens, targets = batch_of(CONFIG, 3, seed=2)
    found, largest = [], []
    for chunk in (None, 100, 7):
        bench = make(chunk)
        taken: list[int] = []
        real = bench.pool.take

        def take(name: str, *given: Any, _real: Any = real, _taken: list[int] = taken,
                 **options: Any) -> Any:  # fmt: skip
            piece = _real(name, *given, **options)
            _taken += [piece.nbytes] if name == "hd.y" else []
            return piece

        bench.pool.take = take  # type: ignore[method-assign]
        with bench.pool.eager_pass("loss"):
            given = bench.put("tokens", tokens), bench.put("targets", targets)
            trace = bench.model.forward(rig.stream, given[0])
            assert (trace.logits is None) == (chunk == 7)
            loss = bench.model.loss(rig.stream, trace, given[1])
            found.append(float(download(loss, rig.stream)[0]))
        largest.append(max(taken))
    assert found[0] == found[1] == pytest.approx(found[2], rel=1e-6)
    assert largest == [4 * ROWS * 264, 4 * ROWS * 264, 4 * 7 * 264]


@pytest.mark.host
def test_backward_before_the_loss_is_refused(make: Make, rig: Rig) -> None:
    bench = make(7)
    with bench.pool.eager_pass("step"):
        trace = bench.model.forward(rig.stream, bench.put("tokens", batch_of(CONFIG, 3, 2)[0]))
        with pytest.raises(ConfigError, match="call that with the trace"):
            bench.model.backward(rig.stream, trace)


@pytest.mark.host
def test_a_second_loss_and_gradient_leaves_nothing_of_the_first(make: Make) -> None:
    assert_a_second_loss_leaves_nothing(make(16), *batch_of(CONFIG, 3, seed=2))


@pytest.mark.host
@pytest.mark.parametrize("loss_rows", [0, -1])
def test_no_rows_at_one_time_are_refused(make: Make, loss_rows: int) -> None:
    told = f"loss_rows must be an integer of at least 1, got {loss_rows}"
    with pytest.raises(ConfigError, match=told):
        make(loss_rows)


@pytest.mark.host
@pytest.mark.parametrize(
    ("rows", "classes", "chunk"),
    [(8192, 50304, 2048), (8192, 256, 8192), (2048, 50304, 2048), (4096, 50304, 2048),
     (1, 1 << 28, 1), (257, 1 << 20, 256), (6000, 50304, 2048)],
)  # fmt: skip
def test_small_logits_stay_whole_and_large_ones_go_in_equal_parts(
    rows: int, classes: int, chunk: int
) -> None:
    assert rows_at_once(rows, classes) == chunk
