"""charlm against GPT-2 as transformers has it: loss, every gradient, and 50 steps of AdamW."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from lowgraph.models import CharLMConfig
from lowgraph.train.plan import Schedule
from tests.models.bench import Bench
from tests.models.cases import batch_of, perturbed, scheduled_rate
from tests.models.oracle import compare, split_key_bias, worst
from tests.support.closing import all_closed
from tests.support.rig import Rig
from tests.support.settings import settings

torch = pytest.importorskip("torch", reason="the oracle extra is not installed")
pytest.importorskip("transformers", reason="the oracle extra is not installed")

from tests.models import gpt2_lm, torch_oracle  # noqa: E402

pytestmark = pytest.mark.both

Make = Callable[[CharLMConfig, int], Bench]

# Context, width, heads, layers, vocabulary, batch: sizes on and off the kernels' tiles of 4 to 64.
CASES = {
    "odd": (CharLMConfig(33, 24, 2, 2, 61), 3),
    "small-heads": (CharLMConfig(31, 20, 5, 1, 257), 2),
    "one-token": (CharLMConfig(1, 8, 1, 1, 5), 4),
    "deep": (CharLMConfig(9, 12, 3, 5, 256), 5),
    "wide": (CharLMConfig(20, 128, 4, 1, 256), 2),
    "long": (CharLMConfig(257, 16, 1, 1, 31), 1),
}


@pytest.fixture
def make(rig: Rig) -> Iterator[Make]:
    with all_closed(lambda config, seed: Bench(rig, config, perturbed(config, seed))) as build:
        yield build


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_loss_and_every_gradient(make: Make, case: str, seed: int) -> None:
    """The loss within 1e-5; each gradient within ten times what float32 costs GPT-2 itself."""
    config, batch = CASES[case]
    weights = perturbed(config, seed)
    tokens, targets = batch_of(config, batch, seed + 100)
    found = {}
    for dtype in (torch.float64, torch.float32):
        module = gpt2_lm.LossOf(gpt2_lm.build(config, weights, dtype))
        theirs = torch_oracle.gradients(module, (tokens, targets), dtype)
        found[dtype] = theirs.loss, gpt2_lm.by_our_names(config, theirs.by_name)
    double_loss, double = found[torch.float64]
    _, single = found[torch.float32]
    loss, ours = make(config, seed).gradients(tokens, targets)
    assert loss == pytest.approx(double_loss, rel=1e-5)
    nearest = worst(compare(*map(split_key_bias, (ours, single, double))))
    print(f"worst tensor {nearest}")
    assert nearest.excess <= 1, f"worst tensor {nearest}"


def distance(these: list[float], those: list[float]) -> float:
    """The largest relative difference."""
    return float(np.max(np.abs(np.subtract(these, those) / those)))


@pytest.mark.parametrize("case", settings(["odd"], ["deep", "wide"]))
def test_fifty_steps_follow_adamw(make: Make, case: str) -> None:
    """Each loss within 1e-4 of GPT-2's under torch.optim.AdamW, while the loss falls.

    Five batches in turn, so that there is something to learn. At a rate of 0.01 the batches
    are learnt by heart, and float32 and float64 of GPT-2 itself come to differ by more than 1e-4:
    that is no oracle any more, so its own distance is held to a third of the limit.
    """
    config, batch = CASES[case]
    schedule = Schedule(steps=50, warmup=5, learning_rate=0.004, batch=batch, weight_decay=0.3)
    batches = [batch_of(config, batch, seed=step % 5) for step in range(50)]
    settings = torch_oracle.AdamWSettings(
        [scheduled_rate(schedule, step) for step in range(1, 51)],
        (schedule.beta1, schedule.beta2),
        schedule.epsilon,
        schedule.weight_decay,
    )
    double, theirs = (
        torch_oracle.train(
            gpt2_lm.LossOf(gpt2_lm.build(config, perturbed(config, seed=3), dtype)),
            batches,
            settings,
            dtype,
        )[0]
        for dtype in (torch.float64, torch.float32)
    )
    ours = make(config, 3).train(batches, schedule)
    print(f"ours {distance(ours, theirs):.2g}, GPT-2 in float64 {distance(double, theirs):.2g}")
    assert theirs[-1] < 0.85 * theirs[0]
    assert distance(double, theirs) < 1e-4 / 3
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
