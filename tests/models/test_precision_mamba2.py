"""The Mamba-2 models in TF32 and bfloat16: as near to float64 as PyTorch's autocast is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from lowgraph.models.mamba2 import Mamba2
from lowgraph.models.mamba2_config import Mamba2Config, Mamba2LMConfig
from lowgraph.models.mamba2_lm import Mamba2LM
from lowgraph.precision import Precision
from lowgraph.train.plan import Schedule
from tests.models.bench import Bench
from tests.models.nearness import ROUNDOFF, SEEDS, Draw, assert_as_near, distances
from tests.support.closing import all_closed
from tests.support.rig import Rig
from tests.support.settings import settings

pytestmark = pytest.mark.both

torch = pytest.importorskip("torch", reason="the oracle extra is not installed")
pytest.importorskip("transformers", reason="the oracle extra is not installed")
from tests.models import torch_oracle  # noqa: E402
from tests.models.cases_mamba2 import batch_of, perturbed  # noqa: E402
from tests.models.rival_mamba2 import Perception  # noqa: E402
from tests.models.rival_mamba2_lm import LM, all_in  # noqa: E402
from tests.models.rounded_linear import round_operands  # noqa: E402

Config = Mamba2Config | Mamba2LMConfig
Make = Callable[[Config, int, Precision], Bench]
MODELS: dict[type, Any] = {Mamba2Config: Mamba2, Mamba2LMConfig: Mamba2LM}
QUICK = ("odd", "lm odd")  # the others take 32 seeds of larger shapes
CASES = {
    "odd": (Mamba2Config(5, 24, 33, 2, 12, 7, 4, 3), 3),
    "one-step": (Mamba2Config(4, 8, 1, 2, 8, 3, 4, 1), 5),
    "one-head": (Mamba2Config(7, 40, 45, 1, 40, 33, 2, 2), 2),
    "lm odd": (Mamba2LMConfig(18, 33, 2, 61, 2, 12, 7, 4), 3),
    "lm one-token": (Mamba2LMConfig(10, 1, 1, 5, 2, 5, 3, 4), 4),
    "lm deep": (Mamba2LMConfig(12, 20, 4, 37, 2, 8, 9, 3), 2),
}
FP32, TF32, BF16 = Precision


@pytest.fixture
def make(rig: Rig) -> Iterator[Make]:
    def build(config: Config, seed: int, precision: Precision) -> Bench:
        return Bench(rig, config, perturbed(config, seed), MODELS[type(config)], precision)

    with all_closed(build) as make:
        yield make


def oracle(
    config: Config, seed: int, data: Any, dtype: Any, cast: bool = False, rounded: bool = False
) -> Any:
    """Loss and gradients in a dtype, under autocast over it, or with what ours round rounded."""
    module = Perception(config) if isinstance(config, Mamba2Config) else LM(config)
    loaded = torch_oracle.load(module, perturbed(config, seed), dtype)
    if rounded:
        round_operands(loaded)
    with all_in(dtype), torch.autocast("cpu", dtype=torch.bfloat16, enabled=cast):
        loss = loaded(*(torch_oracle.tensor(values, dtype) for values in data))
    loss.to(dtype).backward()
    return float(loss.detach()), {
        name: parameter.grad.double().numpy() for name, parameter in loaded.named_parameters()
    }


def draws(make: Make, case: str) -> list[Draw]:
    """Loss and gradients of each of SEEDS."""
    config, batch = CASES[case]
    bench, found = make(config, SEEDS[0], BF16), []
    for seed in SEEDS:
        data = batch_of(config, batch, seed + 1)
        bench.model.load_state(perturbed(config, seed), bench.rig.stream)
        passes = (
            bench.gradients(*data),
            oracle(config, seed, data, torch.float32, cast=True),
            oracle(config, seed, data, torch.float64),
        )
        found.append(Draw(*({"loss": np.array([loss]), **named} for loss, named in passes)))
    return found


@pytest.mark.parametrize(
    "case",
    settings(QUICK, [case for case in CASES if case not in QUICK]),
)
def test_bf16_is_as_near_as_autocast(make: Make, case: str) -> None:
    assert_as_near(draws(make, case))


def test_gradients_two_percent_short_are_seen(make: Make) -> None:
    """The rule can fail: it names each tensor of a real run."""
    found = draws(make, "odd")
    short = [
        draw._replace(ours={name: 0.98 * value for name, value in draw.ours.items()})
        for draw in found
    ]
    with pytest.raises(AssertionError) as told:
        assert_as_near(short)
    assert [name for name in found[0].ours if f"'{name}'" not in str(told.value)] == []


@pytest.mark.parametrize("case", CASES)
def test_bf16_rounds_what_it_says_and_no_more(make: Make, case: str) -> None:
    """float64 with those roundings is 4 times as near to ours as without, and as autocast is.

    What is left is from values that TF32 in the scan moves over a border of bfloat16. One place
    more beside the dozen of `mamba2` would be more: 1 / sqrt(13).
    """
    config, batch = CASES[case]
    bench = make(config, SEEDS[0], BF16)
    squares: dict[str, float] = {"ours": 0.0, "theirs": 0.0, "exact": 0.0}
    for seed in SEEDS[:8]:
        data = batch_of(config, batch, seed + 1)
        bench.model.load_state(perturbed(config, seed), bench.rig.stream)
        _, rounded = oracle(config, seed, data, torch.float64, rounded=True)
        found = {
            "ours": bench.gradients(*data)[1],
            "theirs": oracle(config, seed, data, torch.float32, cast=True)[1],
            "exact": oracle(config, seed, data, torch.float64)[1],
        }
        for whose, gradients in found.items():
            squares[whose] += distances(gradients, rounded)[""] ** 2
    off = {whose: np.sqrt(square / 8) for whose, square in squares.items()}
    assert off["ours"] < 0.25 * min(off["exact"], off["theirs"]), off


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_tf32_lies_between(make: Make, case: str, seed: int) -> None:
    """Three bits more than bfloat16 are a factor of 8; a GPU may round less well, or not at all.
    gemm.cu does round: float32 is much nearer."""
    config, batch = CASES[case]
    data = batch_of(config, batch, seed + 1)
    _, double = oracle(config, seed, data, torch.float64)
    benches = {precision: make(config, seed, precision) for precision in Precision}
    off = {
        precision: distances(bench.gradients(*data)[1], double)[""]
        for precision, bench in benches.items()
    }
    rounds = benches[TF32].blas.backend == "kernel"
    assert (20 * off[FP32] if rounds else 0) < off[TF32] < off[BF16] / 2


@pytest.mark.parametrize(
    ("case", "precision"),
    settings([("odd", TF32), ("lm odd", BF16)], [("odd", BF16), ("lm odd", TF32)]),
)
def test_fifty_steps_follow_float32(make: Make, case: str, precision: Precision) -> None:
    """Within four roundings of an operand, times the first loss."""
    config, batch = CASES[case]
    schedule = Schedule(steps=50, warmup=5, learning_rate=1e-2, batch=batch, weight_decay=0.1)
    batches = [batch_of(config, batch, seed % 3) for seed in range(50)]
    wanted = np.array(make(config, 3, FP32).train(batches, schedule))
    found = np.array(make(config, 3, precision).train(batches, schedule))
    assert wanted[-1] < 0.8 * wanted[0]
    assert np.abs(found - wanted).max() <= 4 * ROUNDOFF[precision] * wanted[0]
    assert precision is TF32 or (found != wanted).any(), "it is float32 after all"
