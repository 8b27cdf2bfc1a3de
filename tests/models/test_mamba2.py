"""`mamba2` on the device against PyTorch's autograd of the recurrence that defines it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy.typing as npt
import pytest

from lowgraph.models.mamba2 import Mamba2
from lowgraph.models.mamba2_config import Mamba2Config
from tests.models.bench import Bench
from tests.models.oracle import Row, compare, nudged, worst
from tests.support.rig import Rig

pytestmark = pytest.mark.both

torch = pytest.importorskip("torch", reason="the oracle extra is not installed")
from tests.models import torch_oracle  # noqa: E402
from tests.models.cases_mamba2 import batch_of, perturbed  # noqa: E402
from tests.models.rival_mamba2 import Perception  # noqa: E402

Array = npt.NDArray[Any]
Make = Callable[[Mamba2Config, int], Bench]

# Features, width, context, expand, head_size, state, conv, loops; batch. The kernels' chunk is 32
# steps: below it, at it, one above, and more than two of them.
CASES = {
    "odd": (Mamba2Config(5, 24, 33, 2, 12, 7, 4, 3), 3),
    "one-sequence": (Mamba2Config(3, 16, 70, 2, 16, 8, 4, 2), 1),
    "one-step": (Mamba2Config(4, 8, 1, 2, 8, 3, 4, 1), 5),
    "one-of-all": (Mamba2Config(1, 8, 1, 1, 1, 1, 1, 1), 1),
    "whole-chunk": (Mamba2Config(8, 32, 32, 2, 16, 16, 4, 4), 2),
    "wide-taps": (Mamba2Config(2, 8, 7, 3, 6, 5, 8, 5), 2),
    "one-head": (Mamba2Config(7, 40, 45, 1, 40, 33, 2, 2), 2),
}


@pytest.fixture
def make(rig: Rig) -> Iterator[Make]:
    made: list[Bench] = []

    def build(config: Mamba2Config, seed: int) -> Bench:
        made.append(Bench(rig, config, perturbed(config, seed), Mamba2))
        return made[-1]

    yield build
    for bench in made:
        bench.close()


def oracle(
    config: Mamba2Config, weights: dict[str, Array], batch: tuple[Array, Array], dtype: Any
) -> Any:
    module = torch_oracle.load(Perception(config), weights, dtype)
    return torch_oracle.gradients(module, batch, dtype)


def judge(config: Mamba2Config, seed: int, data: tuple[Array, Array], ours: Any) -> Row:
    """The tensor of ours that is nearest to its limit, or furthest beyond."""
    weights = perturbed(config, seed)
    single = oracle(config, weights, data, torch.float32)
    double = oracle(config, weights, data, torch.float64)
    draw = oracle(config, nudged(weights, seed), data, torch.float64)
    return worst(compare(ours, single.by_name, double.by_name, draw.by_name))


@pytest.mark.parametrize("seed", [1, 4])
@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradients(make: Make, case: str, seed: int) -> None:
    config, batch = CASES[case]
    data = batch_of(config, batch, seed + 1)
    loss, ours = make(config, seed).gradients(*data)
    double = oracle(config, perturbed(config, seed), data, torch.float64)
    assert loss == pytest.approx(double.loss, rel=1e-6)
    nearest = judge(config, seed, data, ours)
    print(f"worst tensor {nearest}")
    assert nearest.excess <= 1, f"worst tensor {nearest}"
