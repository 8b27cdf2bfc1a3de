"""`mamba2-lm` on the device against transformers' Mamba2ForCausalLM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lowgraph.memory import Slice, fill_zero
from lowgraph.models.branches import Branches
from lowgraph.models.linear import Flow
from lowgraph.models.mamba2_config import Mamba2LMConfig
from lowgraph.models.mamba2_lm import Mamba2LM
from lowgraph.models.mamba2_lm_layers import LMLayers, StreamNorm
from lowgraph.train.plan import Schedule
from tests.models.bench import Bench
from tests.models.oracle import Row
from tests.support.closing import all_closed
from tests.support.rig import Rig

pytestmark = pytest.mark.both

torch = pytest.importorskip("torch", reason="the oracle extra is not installed")
pytest.importorskip("transformers", reason="the oracle extra is not installed")
from tests.models import torch_oracle  # noqa: E402
from tests.models.cases_mamba2 import batch_of, perturbed, settings_of  # noqa: E402
from tests.models.rival_mamba2_lm import LM, all_in  # noqa: E402

Array = npt.NDArray[Any]
Make = Callable[[Mamba2LMConfig, int], Bench]

# Width, context, layers, vocabulary, expand, head_size, state, conv; batch.
CASES = {
    "odd": (Mamba2LMConfig(18, 33, 2, 61, 2, 12, 7, 4), 3),
    "one-window": (Mamba2LMConfig(16, 70, 2, 256, 2, 16, 8, 4), 1),
    "one-token": (Mamba2LMConfig(10, 1, 1, 5, 2, 5, 3, 4), 4),
    "deep": (Mamba2LMConfig(12, 20, 4, 37, 2, 8, 9, 3), 2),
    "smallest": (Mamba2LMConfig(2, 2, 1, 2, 1, 1, 1, 1), 1),
}


@pytest.fixture
def make(rig: Rig) -> Iterator[Make]:
    def build(config: Mamba2LMConfig, seed: int) -> Bench:
        return Bench(rig, config, perturbed(config, seed), Mamba2LM)

    with all_closed(build) as make:
        yield make


def oracle(
    config: Mamba2LMConfig, weights: dict[str, Array], batch: tuple[Array, Array], dtype: Any
) -> Any:
    module = torch_oracle.load(LM(config), weights, dtype)
    with all_in(dtype):
        return torch_oracle.gradients(module, batch, dtype)


def judge(
    config: Mamba2LMConfig, seed: int, data: tuple[Array, Array], ours: Any
) -> tuple[float, Row]:
    """See `torch_oracle.judge`."""

    def run(weights: dict[str, Array], dtype: Any) -> Any:
        return oracle(config, weights, data, dtype)

    return torch_oracle.judge(run, perturbed(config, seed), seed, ours)


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


def _no_block(layers: LMLayers, stream: int, name: str, x: Slice, branch: Slice) -> StreamNorm:
    """`add_norm` without what the block says."""
    fill_zero(branch, stream)
    return LMLayers.add_norm(layers, stream, name, x, branch)


def _no_bypass(
    layers: LMLayers,
    stream: int,
    name: str,
    dy: Slice,
    saved: StreamNorm,
    branches: Branches,
    dx: Flow | None = None,
) -> Flow:
    """`norm_backward` that forgets the gradient which passed the block by."""
    if dx is not None:
        fill_zero(dx.exact, stream)
    return LMLayers.norm_backward(layers, stream, name, dy, saved, branches, dx)


def _no_tokens(
    layers: LMLayers, stream: int, name: str, dx: Slice, order: Slice, tokens: Slice
) -> None:
    """`embed_backward` of other tokens."""
    fill_zero(tokens, stream)
    layers._embedding.sort_places(stream, order, tokens, tokens.elements)
    LMLayers.embed_backward(layers, stream, name, dx, order, tokens)


@pytest.mark.parametrize(
    ("method", "crippled"),
    [("add_norm", _no_block), ("norm_backward", _no_bypass), ("embed_backward", _no_tokens)],
)
def test_a_crippled_model_exceeds_the_limit(
    make: Make, monkeypatch: pytest.MonkeyPatch, method: str, crippled: Callable[..., Any]
) -> None:
    """The rule can fail: each of these slips is far outside it."""
    config, batch = CASES["odd"]
    data = batch_of(config, batch, seed=2)
    bench = make(config, 1)
    layers = bench.model._layers
    monkeypatch.setattr(layers, method, lambda *given: crippled(layers, *given))
    _, ours = bench.gradients(*data)
    assert judge(config, 1, data, ours)[1].excess > 100


def test_fifty_steps_follow_transformers(make: Make) -> None:
    """Losses of AdamW steps with warm-up, cosine and two groups of weight decay."""
    config, batch = CASES["odd"]
    schedule = Schedule(steps=50, warmup=5, learning_rate=3e-3, batch=batch, weight_decay=0.1)
    batches = [batch_of(config, batch, seed % 5) for seed in range(schedule.steps)]
    module = torch_oracle.load(LM(config), perturbed(config, 3), torch.float64)
    with all_in(torch.float64):
        theirs, _ = torch_oracle.train(module, batches, settings_of(schedule), torch.float64)
    ours = make(config, 3).train(batches, schedule)
    # float32's rounding grows through AdamW's quotients; a wrong step is 1e-2 off after a few
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    assert theirs[-1] < 0.9 * theirs[0]
