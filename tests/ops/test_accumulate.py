"""Accumulation over micro-batches, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from lowgraph.ops import Accumulate
from tests.ops.compare import ROUNDOFF, Array, assert_close, assert_same_bits, normal, output, wide
from tests.support.rig import Rig


def accumulated(rig: Rig, grads: list[Array], losses: list[float]) -> tuple[Array, Array]:
    """Sum and loss over micro-batches, from poisoned totals."""
    ops, n = Accumulate(rig.library), grads[0].size
    total, loss_total = output(rig, n, name="total"), output(rig, 1, name="loss total")
    for index, (grad, value) in enumerate(zip(grads, losses, strict=True)):
        loss = rig.put(np.array([value], np.float32))
        ops.add(rig.stream, total, loss_total, rig.put(grad), loss, 1 / len(grads), n,
                overwrite=index == 0)  # fmt: skip
    return total.get(), loss_total.get()


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("n", [1, 3, 31, 33, 257, 2047, 2048, 2049, 5001])
@pytest.mark.parametrize("count", [1, 3, 4])
def test_mean_of_gradients_and_losses(rig: Rig, n: int, count: int, seed: int) -> None:
    grads = [normal(10 * seed + i, n) for i in range(count)]
    losses = [float(np.float32(1.5 + i)) for i in range(count)]
    total, loss = accumulated(rig, grads, losses)
    # 1/count rounds once, each addition once.
    tolerance = (count + 1) * ROUNDOFF * count
    assert_close(total, np.mean(wide(*grads), axis=0), tolerance)
    assert_close(loss, np.array([np.mean(losses)]), tolerance)


def test_one_micro_batch_is_a_copy(rig: Rig) -> None:
    grad = normal(1, 300)
    total, loss = accumulated(rig, [grad], [2.25])
    assert_same_bits(total, grad)
    assert loss[0] == 2.25


def test_the_order_alone_decides_the_bits(rig: Rig) -> None:
    grads = [normal(i, 999, scale=10.0**i) for i in range(4)]
    first, second = (accumulated(rig, grads, [1.0, 2.0, 3.0, 4.0]) for _ in range(2))
    assert_same_bits(first[0], second[0])
    assert_same_bits(first[1], second[1])


def test_arrays_may_lie_at_any_float(rig: Rig) -> None:
    grad, n = normal(2, 2600), 2500
    total, source = rig.put(np.full(2600, 7.0, np.float32)), rig.put(grad)
    loss_total, loss = rig.empty(1), rig.put(np.ones(1, np.float32))
    Accumulate(rig.library).add(rig.stream, total.address + 4, loss_total, source.address + 8,
                                loss, 2.0, n, overwrite=False)  # fmt: skip
    want = np.full(2600, 7.0)
    want[1 : 1 + n] += 2.0 * grad[2 : 2 + n].astype(np.float64)
    assert_close(rig.get(total), want, 2 * ROUNDOFF)
    assert np.isnan(rig.get(loss_total)).all(), "added to poison: overwrite was not asked for"


def test_what_is_not_finite_stays_visible(rig: Rig) -> None:
    """The norm masks it in the sum: a mean over the others would be a mean over fewer."""
    grads = [normal(i, 40) for i in range(2)]
    grads[0][13] = np.inf
    total, _ = accumulated(rig, grads, [1.0, 1.0])
    assert np.isinf(total[13]) and np.isfinite(np.delete(total, 13)).all()


def test_no_gradients_leave_the_loss(rig: Rig) -> None:
    _, loss = accumulated(rig, [np.zeros(0, np.float32)] * 2, [1.0, 2.0])
    assert loss[0] == 1.5
