"""charlm in TF32 and bfloat16: as near to float64 as PyTorch's autocast, and the same losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lowgraph import counters
from lowgraph.capture import GraphStep
from lowgraph.memory import download
from lowgraph.models import CharLMConfig
from lowgraph.precision import BFLOAT16, Precision, bfloat16_bits
from lowgraph.train.plan import Schedule
from tests.models import reference
from tests.models.bench import Bench
from tests.models.cases import CASES, batch_of, perturbed
from tests.models.nearness import ROUNDOFF, SEEDS, Draw, assert_as_near, distances
from tests.models.oracle import split_key_bias
from tests.support.closing import all_closed
from tests.support.rig import Rig
from tests.support.settings import settings

pytestmark = pytest.mark.both

Array = npt.NDArray[Any]
Named = dict[str, npt.NDArray[np.float64]]
Make = Callable[[CharLMConfig, int, Precision], Bench]

FP32, TF32, BF16 = Precision
ODD, BATCH = CASES["odd"]
SCHEDULE = Schedule(steps=50, warmup=5, learning_rate=0.01, batch=BATCH, weight_decay=0.1)


@pytest.fixture
def make(rig: Rig) -> Iterator[Make]:
    def build(config: CharLMConfig, seed: int, precision: Precision) -> Bench:
        return Bench(rig, config, perturbed(config, seed), precision=precision)

    with all_closed(build) as make:
        yield make


def exact(config: CharLMConfig, seed: int, tokens: Array, targets: Array) -> tuple[float, Named]:
    weights = {name: value.astype(np.float64) for name, value in perturbed(config, seed).items()}
    loss, found = reference.loss_and_gradients(config, weights, tokens, targets)
    return loss, split_key_bias(found)


@pytest.mark.parametrize(
    "case",
    settings(["odd"], [case for case in CASES if case != "odd"]),
)
def test_bf16_is_as_near_as_autocast(make: Make, case: str) -> None:
    pytest.importorskip("torch", reason="the oracle extra is not installed")
    from tests.models import autocast

    config, batch = CASES[case]
    bench, draws = make(config, SEEDS[0], BF16), []
    for seed in SEEDS:
        tokens, targets = batch_of(config, batch, seed=seed + 1)
        weights = perturbed(config, seed)
        bench.model.load_state(weights, bench.rig.stream)
        passes = (
            bench.gradients(tokens, targets),
            autocast.gradients(config, weights, tokens, targets),
            exact(config, seed, tokens, targets),
        )
        draws.append(
            Draw(*({"loss": np.array([loss]), **split_key_bias(named)} for loss, named in passes))
        )
    assert_as_near(draws)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_tf32_lies_between(make: Make, case: str, seed: int) -> None:
    """Three bits more than bfloat16 are a factor of 8; a GPU may round its operands by two units
    and not by half a one, or not at all. gemm.cu does round: float32 is much nearer."""
    config, batch = CASES[case]
    tokens, targets = batch_of(config, batch, seed=seed + 1)
    double_loss, double = exact(config, seed, tokens, targets)
    off = {}
    for precision in Precision:
        made = make(config, seed, precision)
        loss, found = made.gradients(tokens, targets)
        off[precision] = distances(split_key_bias(found), double)[""]
        if precision is TF32:
            assert loss == pytest.approx(double_loss, rel=2 * ROUNDOFF[TF32])
    rounds = made.blas.backend == "kernel"
    assert (20 * off[FP32] if rounds else 0) < off[TF32] < off[BF16] / 2


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("precision", settings([BF16], [TF32]))
def test_fifty_steps_follow_float32(make: Make, precision: Precision, seed: int) -> None:
    """The loss falls by two thirds, and stays within four roundings of an operand of float32's."""
    four = [batch_of(ODD, BATCH, number) for number in range(4)]
    batches = [four[step % 4] for step in range(50)]
    wanted = np.array(make(ODD, seed, FP32).train(batches, SCHEDULE))
    found = np.array(make(ODD, seed, precision).train(batches, SCHEDULE))
    assert wanted[-1] < 0.4 * wanted[0]
    assert np.abs(found - wanted).max() <= 4 * ROUNDOFF[precision] * wanted[0]
    assert precision is TF32 or (found != wanted).any(), "it is float32 after all"


def test_products_that_read_old_weights_do_not_follow(make: Make) -> None:
    """The rule can fail: without its shadow kept up the model does not learn."""
    four = [batch_of(ODD, BATCH, number) for number in range(4)]
    batches = [four[step % 4] for step in range(50)]
    bench = make(ODD, 1, BF16)
    bench.optimizer = type(bench.optimizer)(
        bench.rig.library, bench.model.parameters, bench.model.gradients,
        bench.model.decayed_elements, bench.rig.stream,
    )  # fmt: skip
    found = bench.train(batches, SCHEDULE)
    wanted = make(ODD, 1, FP32).train(batches, SCHEDULE)
    assert found[-1] - wanted[-1] > 20 * ROUNDOFF[BF16] * wanted[0]


@pytest.mark.parametrize("precision", [TF32, BF16])
def test_captured_equals_eager_and_repeats_bit_for_bit(make: Make, precision: Precision) -> None:
    tokens, targets = batch_of(ODD, BATCH, seed=5)
    ends = []
    for captured in (False, False, True):
        bench = make(ODD, 4, precision)
        control = bench.put("control", SCHEDULE.control_block(0))
        inputs = bench.put("tokens", tokens), bench.put("targets", targets)
        body = _body(bench, control, inputs)
        step = GraphStep(
            body, device=bench.rig.device, pool=bench.pool, stream=bench.rig.stream,
            library=bench.rig.library,
        )  # fmt: skip
        for _ in range(6):
            if captured:
                step()
            else:
                with bench.pool.eager_pass("step"):
                    body(bench.rig.stream)
        pieces = [bench.model.parameters.flat, bench.model.gradients.flat]
        if bench.model.shadow is not None:
            pieces.append(bench.model.shadow.flat)
        ends.append([download(piece, bench.rig.stream).tobytes() for piece in pieces])
        if captured:
            assert step.report().refusals == 0 and step.report().replays == 5
        step.close()
    assert ends[0] == ends[1] == ends[2]


def _body(bench: Bench, control: Any, inputs: tuple[Any, Any]) -> Callable[[int], None]:
    def body(stream: int) -> None:
        bench.clock.advance(stream, control)
        bench.pool.give_back(bench.pass_over(*inputs))
        bench.norm.measure(stream, bench.model.gradients, control)
        bench.optimizer.step(stream, control, bench.norm.stats)

    return body


def test_the_shadow_is_the_rounded_parameters_at_the_same_places(make: Make) -> None:
    bench = make(ODD, 1, BF16)
    model, stream = bench.model, bench.rig.stream
    assert model.shadow is not None and model.shadow.layout == model.parameters.layout
    assert model.shadow["hd.weight"].dtype == BFLOAT16

    def check() -> None:
        for name, value in model.state(stream).items():
            np.testing.assert_array_equal(
                download(model.shadow[name], stream), bfloat16_bits(value), err_msg=name
            )

    check()
    bench.train([batch_of(ODD, BATCH, 1)] * 3, SCHEDULE)
    check()
    model.load_state(perturbed(ODD, seed=9), stream)
    check()


@pytest.mark.parametrize("precision", [FP32, TF32])
def test_only_bf16_has_a_shadow(make: Make, precision: Precision) -> None:
    assert make(ODD, 1, precision).model.shadow is None


def test_a_pass_launches_nothing_more_and_gives_back(make: Make) -> None:
    """bfloat16 costs no launch: what a product reads is written so by the kernel that makes it."""
    tokens, targets = batch_of(ODD, BATCH, seed=9)
    launches = {}
    for precision in Precision:
        bench = make(ODD, 8, precision)
        inputs = bench.put("tokens", tokens), bench.put("targets", targets)
        for _ in range(4):  # the first passes settle how free memory is cut up
            bench.pool.give_back(bench.pass_over(*inputs))
        bench.rig.sync()
        live = bench.pool.stats().slices
        with counters.scope() as counts:
            loss = bench.pass_over(*inputs)
        assert (counts.allocations, counts.copies, counts.fills, counts.syncs) == (0, 0, 0, 0)
        assert bench.pool.stats().slices == live + 1
        bench.pool.give_back(loss)
        launches[precision] = counts.launches
    # With a library's products a precision's routes decide how many launches are ours:
    # benchmarks/expected_costs.py has those.
    if bench.blas.backend == "kernel":
        assert launches[BF16] <= launches[FP32] == launches[Precision.TF32], launches


def test_activations_take_half_the_memory(make: Make) -> None:
    """What is kept for backward is what shrinks; the residual stream stays."""
    tokens, _ = batch_of(ODD, BATCH, seed=9)
    kept = {}
    for precision in (FP32, BF16):
        bench = make(ODD, 8, precision)
        trace = bench.model.forward(bench.rig.stream, bench.put("tokens", tokens))
        block = trace.blocks[0]
        narrow = [block.norm1.y, block.attended.y, block.attended.qkv, block.hidden, block.active]
        kept[precision] = sum(piece.nbytes for piece in [*narrow, block.norm2.y, trace.logits])
        wide = block.norm1.x, block.norm2.x, block.norm1.mean, block.attended.lse, trace.norm.x
        assert {piece.dtype.name for piece in wide} == {"float32"}
    assert 2 * kept[BF16] == kept[FP32]
