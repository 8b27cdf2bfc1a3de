"""The model on the device against two oracles: NumPy, and PyTorch where it is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lowgraph import counters
from lowgraph.errors import ConfigError
from lowgraph.memory import Slice, fill_zero, upload
from lowgraph.models import CharLMConfig
from lowgraph.models.layers import Layers, Normed
from lowgraph.models.parameters import decayed_count, initial_values, parameter_specs
from lowgraph.train.plan import Schedule
from tests.models import reference
from tests.models.bench import Bench
from tests.models.cases import CASES, batch_of, perturbed, scheduled_rate
from tests.models.oracle import MARGIN, compare, split_key_bias, worst
from tests.models.passes import assert_vectors_do_not_decay
from tests.support.closing import all_closed
from tests.support.rig import Rig

pytestmark = pytest.mark.both

Array = npt.NDArray[Any]
Oracle = Callable[..., tuple[float, dict[str, Array]]]
Make = Callable[[CharLMConfig, int], Bench]


@pytest.fixture
def make(rig: Rig) -> Iterator[Make]:
    with all_closed(lambda config, seed: Bench(rig, config, perturbed(config, seed))) as build:
        yield build


def _numpy(config: CharLMConfig, weights: dict[str, Array], tokens: Array, targets: Array,
           dtype: str) -> tuple[float, dict[str, Array]]:  # fmt: skip
    cast = {name: value.astype(dtype) for name, value in weights.items()}
    loss, found = reference.loss_and_gradients(config, cast, tokens, targets)
    return loss, {name: value.astype(np.float64) for name, value in found.items()}


def _torch(config: CharLMConfig, weights: dict[str, Array], tokens: Array, targets: Array,
           dtype: str) -> tuple[float, dict[str, Array]]:  # fmt: skip
    torch = pytest.importorskip("torch", reason="the oracle extra is not installed")
    from tests.models import rival_lm

    found = rival_lm.gradients(config, weights, tokens, targets, getattr(torch, dtype))
    return found.loss, found.by_name


@pytest.mark.parametrize("oracle", [_numpy, _torch], ids=["numpy", "torch"])
@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradients(make: Make, case: str, oracle: Oracle) -> None:
    config, batch = CASES[case]
    weights = perturbed(config, seed=1)
    tokens, targets = batch_of(config, batch, seed=2)
    double_loss, double = oracle(config, weights, tokens, targets, "float64")
    _, single = oracle(config, weights, tokens, targets, "float32")
    loss, ours = make(config, 1).gradients(tokens, targets)
    assert loss == pytest.approx(double_loss, rel=1e-6)
    nearest = worst(compare(*map(split_key_bias, (ours, single, double))))
    assert nearest.excess <= 1, f"worst tensor {nearest}"


def test_a_large_vocabulary_of_which_few_tokens_occur(make: Make) -> None:
    """GPT-2's 50304: rows of both tables whose token does not occur get a gradient of zero."""
    config = CharLMConfig(context=7, width=8, heads=2, layers=1, vocabulary=50304)
    weights, (tokens, targets) = perturbed(config, seed=1), batch_of(config, 3, seed=2)
    tokens[0, :2] = 50303, 50303
    double_loss, double = _torch(config, weights, tokens, targets, "float64")
    _, single = _torch(config, weights, tokens, targets, "float32")
    loss, ours = make(config, 1).gradients(tokens, targets)
    assert loss == pytest.approx(double_loss, rel=1e-6)
    nearest = worst(compare(*map(split_key_bias, (ours, single, double))))
    assert nearest.excess <= 1, f"worst tensor {nearest}"
    touched = np.flatnonzero(ours["e.weight"].any(axis=1))
    assert set(touched) == set(tokens.ravel())


def _no_attention(
    layers: Layers, stream: int, name: str, norm: str, x: Slice, residual: Slice
) -> Normed:
    """`linear_norm` that leaves the attention's output out of the residual stream."""
    if name.endswith(".o"):
        fill_zero(x, stream)
    return Layers.linear_norm(layers, stream, name, norm, x, residual)


def _no_gelu_slope(
    layers: Layers, stream: int, name: str, dy: Slice, active: Slice, hidden: Slice, side: int,
    biased: bool,
) -> Slice:  # fmt: skip
    """`linear_gelu_backward` that takes the GELU for the identity."""
    return layers.linear_backward(stream, name, dy, active, side, biased=biased)


def _no_bias(layers: Layers, stream: int, name: str, x: Slice) -> Slice:
    """`linear` without its bias."""
    return layers.project(stream, name, x)


@pytest.mark.parametrize(
    ("method", "crippled"),
    [
        ("linear_norm", _no_attention),
        ("linear_gelu_backward", _no_gelu_slope),
        ("linear", _no_bias),
    ],
)
def test_a_crippled_model_exceeds_the_limit(
    make: Make, monkeypatch: pytest.MonkeyPatch, method: str, crippled: Callable[..., Any]
) -> None:
    """The rule can fail: each of these slips is far outside it."""
    config, batch = CASES["odd"]
    weights = perturbed(config, seed=1)
    tokens, targets = batch_of(config, batch, seed=2)
    _, double = _numpy(config, weights, tokens, targets, "float64")
    _, single = _numpy(config, weights, tokens, targets, "float32")
    bench = make(config, 1)
    layers = bench.model._layers
    monkeypatch.setattr(layers, method, partial(crippled, layers))
    _, ours = bench.gradients(tokens, targets)
    rows = compare(*map(split_key_bias, (ours, single, double)))
    assert worst(rows).excess > 100


def test_five_steps_follow_torch(make: Make) -> None:
    """Losses of AdamW steps with warm-up, cosine and two groups of weight decay."""
    torch = pytest.importorskip("torch", reason="the oracle extra is not installed")
    from tests.models import rival_lm

    config, batch = CASES["odd"]
    schedule = Schedule(steps=5, warmup=2, learning_rate=0.02, batch=batch, weight_decay=0.3)
    batches = [batch_of(config, batch, seed) for seed in range(5)]
    settings = rival_lm.AdamWSettings(
        [scheduled_rate(schedule, step) for step in range(1, 6)],
        (schedule.beta1, schedule.beta2),
        schedule.epsilon,
        schedule.weight_decay,
    )
    weights = perturbed(config, seed=3)
    double, _ = rival_lm.train(config, weights, batches, settings, torch.float64)
    single, _ = rival_lm.train(config, weights, batches, settings, torch.float32)
    ours = make(config, 3).train(batches, schedule)
    rounding = np.max(np.abs(np.subtract(single, double)))
    np.testing.assert_allclose(ours, double, rtol=0, atol=MARGIN * rounding)


def test_vectors_do_not_decay(make: Make) -> None:
    """With no gradient at all a step only decays: matrices shrink, biases and norms stay."""
    config, _ = CASES["odd"]
    bench = make(config, 5)
    assert_vectors_do_not_decay(bench)


def test_every_gradient_is_overwritten(make: Make) -> None:
    """NaN in all gradient memory before a pass leaves none behind, nor in what does not occur."""
    config, batch = CASES["deep"]
    bench = make(config, 6)
    tokens, targets = batch_of(config, batch, seed=7)
    _, once = bench.gradients(tokens, targets)
    for piece in bench.model.gradients.values():
        nan = np.full(piece.shape, np.nan, np.float32)
        upload(piece, nan, bench.rig.stream)
    _, again = bench.gradients(tokens, targets)
    for name, value in once.items():
        np.testing.assert_array_equal(again[name], value, err_msg=name)


def test_a_pass_takes_from_the_pool_alone_and_gives_back(make: Make) -> None:
    config, batch = CASES["odd"]
    bench = make(config, 8)
    tokens, targets = batch_of(config, batch, seed=9)
    inputs = bench.put("tokens", tokens), bench.put("targets", targets)
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


def test_names_shapes_and_order_of_the_parameters(make: Make) -> None:
    config, _ = CASES["odd"]
    bench = make(config, 1)
    specs = parameter_specs(config)
    assert list(bench.model.parameters) == [spec.name for spec in specs]
    decayed = [spec.name for spec in specs[: decayed_count(config)]]
    assert decayed == [spec.name for spec in specs if len(spec.shape) > 1]
    assert bench.model.parameter_count == sum(spec.elements for spec in specs)


def test_state_comes_back_and_a_wrong_one_is_refused(make: Make) -> None:
    config, _ = CASES["odd"]
    bench = make(config, 1)
    stream = bench.rig.stream
    weights = initial_values(config, seed=2)
    bench.model.load_state(weights, stream)
    for name, value in bench.model.state(stream).items():
        np.testing.assert_array_equal(value, weights[name])
    with pytest.raises(ConfigError, match=r"missing \['n.bias'\], unknown \['other'\]"):
        wrong = {k: v for k, v in weights.items() if k != "n.bias"}
        bench.model.load_state({**wrong, "other": weights["n.bias"]}, stream)
    with pytest.raises(ConfigError, match=r"n\.bias has shape \(3,\), the model wants \(24,\)"):
        bench.model.load_state({**weights, "n.bias": np.zeros(3, np.float32)}, stream)


@pytest.mark.parametrize("sizes", [(0, 8, 2, 1), (4, 8, 3, 1), (4, 8, 4, 1), (4, 8, 2, 0)])
def test_a_shape_that_cannot_be_is_refused(sizes: tuple[int, int, int, int]) -> None:
    with pytest.raises(ConfigError, match=r"^model: "):
        CharLMConfig(*sizes)
