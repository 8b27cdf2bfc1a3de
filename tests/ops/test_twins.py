"""The twins' gradients against finite differences in float64, and against each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.ops import twins
from tests.ops.compare import Array


def numbers(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def assert_gradient(loss: Callable[[Array], float], at: Array, gradient: Array) -> None:
    """Compare with central differences, element by element.

    Step 1e-5: the truncation is about 1e-10 and float64 rounding 1e-11 of a loss of size 1.
    """
    for index in np.ndindex(*at.shape):
        moved = at.copy()
        moved[index] += 1e-5
        above = loss(moved)
        moved[index] -= 2e-5
        slope = (above - loss(moved)) / 2e-5
        assert gradient[index] == pytest.approx(slope, rel=1e-6, abs=1e-7), index


@pytest.mark.parametrize("seed", [0, 1])
def test_layernorm(seed: int) -> None:
    x, weight, bias, dy = (
        numbers(seed + i, *s) for i, s in enumerate([(3, 5), (5,), (5,), (3, 5)])
    )

    def loss(x: Array, weight: Array, bias: Array) -> float:
        return float((twins.layernorm_forward(x, weight, bias, 1e-5)[0] * dy).sum())

    dx, dweight, dbias = twins.layernorm_backward(dy, x, weight, 1e-5)
    assert_gradient(lambda at: loss(at, weight, bias), x, dx)
    assert_gradient(lambda at: loss(x, at, bias), weight, dweight)
    assert_gradient(lambda at: loss(x, weight, at), bias, dbias)


@pytest.mark.parametrize("seed", [0, 1])
def test_gelu(seed: int) -> None:
    x, dy = numbers(seed, 4, 6) * 2, numbers(seed + 9, 4, 6)
    gradient = twins.gelu_backward(dy, x)
    assert_gradient(lambda at: float((twins.gelu_forward(at) * dy).sum()), x, gradient)


@pytest.mark.parametrize("heads", [1, 2])
def test_attention(heads: int) -> None:
    qkv, dout = numbers(0, 2, 4, 3 * 4), numbers(1, 2, 4, 4)
    gradient = twins.attention_backward(dout, qkv, heads)
    assert_gradient(
        lambda at: float((twins.attention_forward(at, heads)[0] * dout).sum()), qkv, gradient
    )


def test_cross_entropy() -> None:
    logits, targets = numbers(0, 3, 5), np.array([4, 0, 2])
    gradient = twins.cross_entropy_backward(logits, targets, 1 / 3)
    assert_gradient(
        lambda at: float(twins.cross_entropy_forward(at, targets).mean()), logits, gradient
    )


def test_embedding() -> None:
    tokens, dx = np.array([[0, 2, 2], [2, 1, 0]]), numbers(0, 2, 3, 4)
    tables = numbers(1, 5, 4), numbers(2, 3, 4)
    dtoken, dposition = twins.embedding_backward(dx, tokens, 5)

    def loss(token_table: Array, position_table: Array) -> float:
        return float((twins.embedding_forward(tokens, token_table, position_table) * dx).sum())

    assert_gradient(lambda at: loss(at, tables[1]), tables[0], dtoken)
    assert_gradient(lambda at: loss(tables[0], at), tables[1], dposition)


def test_adamw_first_step_moves_by_the_learning_rate() -> None:
    """Without decay and epsilon, step 1 is lr * sign(gradient), whatever the betas."""
    param, grad = numbers(0, 6), numbers(1, 6)
    moved, _, _ = twins.adamw(
        param, np.zeros(6), np.zeros(6), grad, lr=0.01, beta1=0.9, beta2=0.95, epsilon=0.0,
        weight_decay=0.0, step=1, n_decay=6,
    )  # fmt: skip
    np.testing.assert_allclose(param - moved, 0.01 * np.sign(grad), rtol=1e-12)
