"""The MLP against PyTorch: gradients, steps of SGD, precisions, memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lowgraph.blas import Form, Layer, Route, Routes
from lowgraph.blas.routes import Chooser, choose
from lowgraph.errors import ConfigError
from lowgraph.memory import Slice
from lowgraph.models import mlp
from lowgraph.models.mlp import Mlp, MlpConfig
from lowgraph.models.token_layers import TokenLayers
from lowgraph.optim import Sgd
from lowgraph.precision import Precision
from lowgraph.train.plan import Schedule
from tests.models.bench import Bench
from tests.models.cases import scheduled_rate
from tests.models.oracle import Row
from tests.support.closing import all_closed
from tests.support.rig import Rig

torch = pytest.importorskip("torch", reason="the oracle extra is not installed")
from tests.models import torch_oracle  # noqa: E402

pytestmark = pytest.mark.both

Array = npt.NDArray[Any]
Make = Callable[..., Bench]

CASES = {
    "odd": (MlpConfig(7, 33, 3, 5), 31),
    "smallest": (MlpConfig(1, 1, 1, 2), 1),
    "one-layer": (MlpConfig(257, 31, 1, 3), 33),
    "one-row": (MlpConfig(16, 64, 2, 10), 1),
    "deep": (MlpConfig(32, 32, 8, 10), 65),
}


class Rival(torch.nn.Module):  # type: ignore[misc]
    """Parameter names are those of lowgraph's `mlp`."""

    def __init__(self, config: MlpConfig) -> None:
        super().__init__()
        widths = [config.features, *[config.width] * config.layers]
        self.l = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in pairwise(widths))
        self.o = torch.nn.Linear(config.width, config.classes)

    def forward(self, inputs: Any, targets: Any) -> Any:
        h = inputs[:, 0]
        for layer in self.l:
            h = torch.relu(layer(h))
        return torch.nn.functional.cross_entropy(self.o(h), targets[:, 0])


@pytest.fixture
def make(rig: Rig) -> Iterator[Make]:
    def build(
        config: MlpConfig,
        seed: int,
        precision: Precision = Precision.FP32,
        routes: Chooser = choose,
    ) -> Bench:
        return Bench(rig, config, weights_of(config, seed), Mlp, precision, routes)

    with all_closed(build) as make:
        yield make


def weights_of(config: MlpConfig, seed: int) -> dict[str, Array]:
    """Initial ones, biases moved off zero."""
    generator = np.random.default_rng(seed)
    return {
        name: (value + 0.1 * generator.standard_normal(value.shape)).astype(np.float32)
        for name, value in mlp.initial_values(config, seed).items()
    }


def batch_of(config: MlpConfig, batch: int, seed: int) -> tuple[Array, Array]:
    generator = np.random.default_rng(seed)
    inputs = generator.standard_normal((batch, 1, config.features)).astype(np.float32)
    return inputs, generator.integers(0, config.classes, (batch, 1), dtype=np.int32)


def oracle(config: MlpConfig, weights: dict[str, Array], data: Any, dtype: Any) -> Any:
    module = torch_oracle.load(Rival(config), weights, dtype)
    return torch_oracle.gradients(module, data, dtype)


def judge(config: MlpConfig, seed: int, data: Any, ours: Any) -> tuple[float, Row]:
    """See `torch_oracle.judge`."""

    def run(weights: dict[str, Array], dtype: Any) -> Any:
        return oracle(config, weights, data, dtype)

    return torch_oracle.judge(run, weights_of(config, seed), seed, ours)


@pytest.mark.parametrize("seed", [1, 4])
@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradients(make: Make, case: str, seed: int) -> None:
    config, batch = CASES[case]
    data = batch_of(config, batch, seed + 1)
    loss, ours = make(config, seed).gradients(*data)
    wanted, nearest = judge(config, seed, data, ours)
    assert loss == pytest.approx(wanted, rel=1e-6, abs=1e-7)  # a mean of float32 terms near 1
    assert nearest.excess <= 1, f"worst tensor {nearest}"


def _no_mask(layers: TokenLayers, stream: int, name: str, dy: Slice, x: Slice, y: Slice) -> Slice:
    """`linear_relu_backward` as if every unit were on."""
    return layers.linear_backward(stream, name, dy, x)


def _no_bias(layers: TokenLayers, stream: int, name: str, x: Slice) -> Slice:
    return layers.project(stream, name, x)


@pytest.mark.parametrize(
    ("method", "crippled"), [("linear_relu_backward", _no_mask), ("linear", _no_bias)]
)
def test_a_model_without_its_masks_or_bias_exceeds_the_limit(
    make: Make, monkeypatch: pytest.MonkeyPatch, method: str, crippled: Callable[..., Any]
) -> None:
    """The rule can fail: each of these slips is far outside it."""
    config, batch = CASES["odd"]
    data = batch_of(config, batch, seed=2)
    bench = make(config, 1)
    layers = bench.model._layers
    with monkeypatch.context() as patch:
        patch.setattr(layers, method, lambda *given: crippled(layers, *given))
        assert judge(config, 1, data, bench.gradients(*data)[1])[1].excess > 100
    assert judge(config, 1, data, bench.gradients(*data)[1])[1].excess <= 1


def _as_on_a_gpu(layer: Layer, backend: str) -> Routes:
    return choose(layer, "cublas")


def test_tf32_by_the_routes_of_a_gpu(make: Make) -> None:
    """The layers of kernels_cu/linear_tf32.cu: as near to float64 as products with TF32 are."""
    config, batch = MlpConfig(36, 68, 3, 10), 33
    data, weights = batch_of(config, batch, 5), weights_of(config, 1)
    double = oracle(config, weights, data, torch.float64)
    bench = make(config, 1, Precision.TF32, _as_on_a_gpu)
    loss, own = bench.gradients(*data)
    forms = {layer.form for layer in bench.blas.algorithms()}
    assert forms == {Form.RELU, Form.BIAS, Form.BACKWARD, Form.BACKWARD_RELU}
    assert set(bench.blas.algorithms().values()) == {"own"}
    separate = make(
        config, 1, Precision.TF32, lambda layer, backend: Routes(Route.SEPARATE, Route.SEPARATE)
    ).gradients(*data)[1]
    assert loss == pytest.approx(double.loss, rel=1e-3)  # 4 layers of 2^-11 an operand
    for name, wanted in double.by_name.items():
        size = np.linalg.norm(wanted)
        errors = [np.linalg.norm(found[name] - wanted) / size for found in (own, separate)]
        # Both read the same rounded weights; a unit near zero may switch sides in one of them.
        assert errors[0] < max(2 * errors[1], 2e-3), f"{name}: {errors}"
    again = bench.gradients(*data)
    assert again[0] == loss
    assert all((again[1][name] == value).all() for name, value in own.items())


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_fifty_steps_follow_torch(make: Make, momentum: float) -> None:
    """Losses of SGD steps with warm-up, cosine and weight decay on the weights."""
    config, batch = CASES["odd"]
    schedule = Schedule(50, 5, 0.05, batch, weight_decay=0.01)
    batches = [batch_of(config, batch, seed % 5) for seed in range(schedule.steps)]
    bench = make(config, 3)
    bench.optimizer = Sgd(  # type: ignore[assignment]
        bench.rig.library, bench.model.parameters, bench.model.gradients,
        bench.model.decayed_elements, bench.rig.stream, momentum=momentum,
    )  # fmt: skip
    ours = bench.train(batches, schedule)
    module = torch_oracle.load(Rival(config), weights_of(config, 3), torch.float64)
    groups = [
        {"params": [p for p in module.parameters() if p.dim() > 1], "weight_decay": 0.01},
        {"params": [p for p in module.parameters() if p.dim() == 1]},
    ]
    optimizer = torch.optim.SGD(groups, lr=1.0, momentum=momentum)
    theirs = []
    for step, data in enumerate(batches, 1):
        for group in optimizer.param_groups:
            group["lr"] = scheduled_rate(schedule, step)
        optimizer.zero_grad()
        loss = module(*(torch_oracle.tensor(values, torch.float64) for values in data))
        loss.backward()
        optimizer.step()
        theirs.append(float(loss.detach()))
    # float32's rounding, not grown by any quotient as AdamW's would; a wrong step is 1e-2 off
    np.testing.assert_allclose(ours, theirs, rtol=2e-5)
    assert theirs[-1] < 0.9 * theirs[0]
    assert bench.optimizer.state.keys() == ({"momentum"} if momentum else set())
    bench.optimizer.close()
    bench.optimizer.close()


def test_a_precision_is_as_near_as_its_operands(make: Make) -> None:
    """bfloat16 as near to float64 as PyTorch's autocast, TF32 nearer, by three bits of fraction."""
    config, batch = CASES["deep"]
    data, weights = batch_of(config, batch, 7), weights_of(config, 2)
    double = oracle(config, weights, data, torch.float64).by_name
    module = torch_oracle.load(Rival(config), weights, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = module(*(torch_oracle.tensor(values, torch.float32) for values in data))
    loss.float().backward()
    autocast = {name: p.grad.double().numpy() for name, p in module.named_parameters()}

    def distance(found: dict[str, Array]) -> float:
        far = (np.linalg.norm(found[n] - w) / np.linalg.norm(w) for n, w in double.items())
        return float(sum(far))

    bf16, tf32 = (
        distance(make(config, 2, precision).gradients(*data)[1])
        for precision in (Precision.BF16, Precision.TF32)
    )
    assert bf16 < 2 * distance(autocast)
    # 2^-3 of it where no unit near zero switches sides, which is a jump and no rounding.
    assert 0 < tf32 < bf16 / 2


@pytest.mark.parametrize("precision", list(Precision))
def test_a_pass_gives_everything_back_and_repeats_bit_for_bit(
    make: Make, precision: Precision
) -> None:
    config, batch = CASES["odd"]
    data = batch_of(config, batch, 7)
    bench = make(config, 2, precision)
    first = bench.gradients(*data)
    live = bench.pool.stats().live
    with bench.pool.eager_pass("again"):
        given = [bench.put(name, values) for name, values in zip("xy", data, strict=True)]
        loss = bench.pass_over(*given)
        for piece in (*given, loss):
            bench.pool.give_back(piece)
        assert bench.pool.stats().live == live
    again = bench.gradients(*data)
    assert again[0] == first[0]
    assert all((again[1][name] == value).all() for name, value in first[1].items())


@pytest.mark.parametrize("field", ["features", "width", "layers", "classes"])
def test_a_shape_that_cannot_be_is_refused(field: str) -> None:
    with pytest.raises(ConfigError, match=f"{field} must be at least 1, got 0"):
        MlpConfig(**{"features": 2, "width": 2, "layers": 2, "classes": 2, field: 0})
