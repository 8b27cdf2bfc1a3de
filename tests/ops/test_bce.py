from __future__ import annotations

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops import BinaryCrossEntropy
from tests.ops import twins_mamba as twins
from tests.ops.compare import (
    ROUNDOFF,
    Array,
    assert_close,
    assert_same_bits,
    in_place,
    normal,
    output,
    wide,
)
from tests.support.rig import Rig

# One block up to 2048; the last walks the grid more than once.
COUNTS = [1, 31, 33, 257, 2048, 2049, 140001]
# An element's loss has four operations; the sums are in double.
CLOSE = 8 * ROUNDOFF


def run_forward(rig: Rig, logits: Array, targets: Array) -> Array:
    loss = output(rig, 1, name="loss")
    partial = output(rig, *BinaryCrossEntropy.partial_shape(logits.size), name="partial")
    BinaryCrossEntropy(rig.library).forward(
        rig.stream, loss, partial, rig.put(logits), rig.put(targets), logits.size
    )
    partial.get()
    return loss.get()


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("count", COUNTS)
def test_forward_and_backward(rig: Rig, count: int, seed: int) -> None:
    logits = normal(seed, count, scale=3.0)
    targets = np.random.default_rng(seed + 9).random(count).astype(np.float32)
    loss = run_forward(rig, logits, targets)
    dlogits, again = in_place(rig, logits), output(rig, 1)
    partial = output(rig, *BinaryCrossEntropy.partial_shape(count))
    BinaryCrossEntropy(rig.library).forward(
        rig.stream, again, partial, dlogits, rig.put(targets), count, dlogits=dlogits,
        scale=1 / count,
    )  # fmt: skip
    exact = wide(logits, targets)
    assert_close(loss, np.array([twins.bce_forward(*exact)]), CLOSE, "loss")
    assert_same_bits(loss, again.get())
    assert_close(dlogits.get(), twins.bce_backward(*exact), CLOSE, "dlogits")
    assert_same_bits(loss, run_forward(rig, logits, targets))


@pytest.mark.parametrize(("logit", "target"), [(60.0, 1.0), (-60.0, 0.0), (300.0, 0.0), (-300, 1)])
def test_a_sure_answer_keeps_its_digits(rig: Rig, logit: float, target: float) -> None:
    """log(1 - sigmoid) would be infinite or nothing here."""
    logits, targets = np.full(5, logit, np.float32), np.full(5, target, np.float32)
    want = twins.bce_forward(*wide(logits, targets))
    # exp of -60 in float32: the exponent's own rounding counts 60 times
    assert_close(run_forward(rig, logits, targets), np.array([want]), 64 * ROUNDOFF, "loss")


def test_no_elements(rig: Rig) -> None:
    nothing = output(rig, 0)
    entropy = BinaryCrossEntropy(rig.library)
    with pytest.raises(ConfigError, match="count must be 1 to"):
        entropy.forward(rig.stream, nothing, nothing, nothing, nothing, 0)
