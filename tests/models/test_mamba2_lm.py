"""`mamba2-lm` on the device against transformers' Mamba2ForCausalLM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy.typing as npt
import pytest

from lowgraph.models.mamba2_config import Mamba2LMConfig
from lowgraph.models.mamba2_lm import Mamba2LM
from tests.models.bench import Bench
from tests.models.oracle import Row, compare, nudged, worst
from tests.support.rig import Rig

pytestmark = pytest.mark.both

torch = pytest.importorskip("torch", reason="the oracle extra is not installed")
pytest.importorskip("transformers", reason="the oracle extra is not installed")
from tests.models import torch_oracle  # noqa: E402
from tests.models.cases_mamba2 import batch_of, perturbed  # noqa: E402
from tests.models.rival_mamba2_lm import LM, all_in  # noqa: E402

Array = npt.NDArray[Any]
Make = Callable[[Mamba2LMConfig, int], Bench]

# Width, context, layers, vocabulary, expand, head_size, state, conv; batch.
CASES = {
    "odd": (Mamba2LMConfig(18, 33, 2, 61, 2, 12, 7, 4), 3),
    "one-window": (Mamba2LMConfig(16, 70, 2, 256, 2, 16, 8, 4), 1),
    "one-token": (Mamba2LMConfig(10, 1, 1, 5, 2, 5, 3, 4), 4),
    "deep": (Mamba2LMConfig(12, 20, 4, 37, 2, 8, 9, 3), 2),
    "one-of-all": (Mamba2LMConfig(1, 1, 1, 1, 1, 1, 1, 1), 1),
}


@pytest.fixture
def make(rig: Rig) -> Iterator[Make]:
    made: list[Bench] = []

    def build(config: Mamba2LMConfig, seed: int) -> Bench:
        made.append(Bench(rig, config, perturbed(config, seed), Mamba2LM))
        return made[-1]

    yield build
    for bench in made:
        bench.close()


def oracle(
    config: Mamba2LMConfig, weights: dict[str, Array], batch: tuple[Array, Array], dtype: Any
) -> Any:
    module = torch_oracle.load(LM(config), weights, dtype)
    with all_in(dtype):
        return torch_oracle.gradients(module, batch, dtype)


def judge(
    config: Mamba2LMConfig, seed: int, data: tuple[Array, Array], ours: Any
) -> tuple[float, Row]:
    """The loss, and the tensor of ours that is nearest to its limit, or furthest beyond."""
    weights = perturbed(config, seed)
    single = oracle(config, weights, data, torch.float32)
    double = oracle(config, weights, data, torch.float64)
    draw = oracle(config, nudged(weights, seed), data, torch.float64)
    return double.loss, worst(compare(ours, single.by_name, double.by_name, draw.by_name))


@pytest.mark.parametrize("seed", [1, 4])
@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradients(make: Make, case: str, seed: int) -> None:
    config, batch = CASES[case]
    data = batch_of(config, batch, seed + 1)
    loss, ours = make(config, seed).gradients(*data)
    wanted, nearest = judge(config, seed, data, ours)
    assert loss == pytest.approx(wanted, rel=1e-6)
    print(f"worst tensor {nearest}")
    assert nearest.excess <= 1, f"worst tensor {nearest}"
