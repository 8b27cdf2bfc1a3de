"""Slow, obvious NumPy twins of every kernel: the definition of what each should compute.

Written from the formulas, one row or one element at a time where that is clearer, in the dtype of
their inputs (float64 in the tests). No twin shares code with a kernel or a launcher.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def layernorm_forward(
    x: Array, weight: Array, bias: Array, epsilon: float
) -> tuple[Array, Array, Array]:
    """Return y [rows,C], mean [rows], rstd [rows]."""
    mean = x.mean(axis=1)
    rstd = 1 / np.sqrt(x.var(axis=1) + epsilon)
    y = (x - mean[:, None]) * rstd[:, None] * weight + bias
    return y, mean, rstd


def layernorm_backward(
    dy: Array, x: Array, weight: Array, epsilon: float
) -> tuple[Array, Array, Array]:
    """Return dx [rows,C], dweight [C], dbias [C]."""
    rstd = 1 / np.sqrt(x.var(axis=1, keepdims=True) + epsilon)
    xhat = (x - x.mean(axis=1, keepdims=True)) * rstd
    g = dy * weight
    dx = rstd * (g - g.mean(axis=1, keepdims=True) - xhat * (g * xhat).mean(axis=1, keepdims=True))
    return dx, (dy * xhat).sum(axis=0), dy.sum(axis=0)


def gelu_forward(x: Array) -> Array:
    """Return x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_backward(dy: Array, x: Array) -> Array:
    """Return dy times the derivative of gelu at x."""
    root = math.sqrt(2 / math.pi)
    tanh = np.tanh(root * (x + 0.044715 * x**3))
    inner = root * (1 + 3 * 0.044715 * x**2)
    return dy * ((1 + tanh) / 2 + x / 2 * (1 - tanh**2) * inner)


def attention_forward(qkv: Array, heads: int) -> tuple[Array, Array]:
    """Return out [B,T,C] and lse [B,heads,T] of causal attention over qkv [B,T,3C]."""
    batch, length, channels = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    out = np.zeros((batch, length, channels), qkv.dtype)
    lse = np.zeros((batch, heads, length), qkv.dtype)
    for b in range(batch):
        for h in range(heads):
            q, k, v, columns = _head(qkv[b], h, heads)
            weights, lse[b, h] = _causal_softmax(q @ k.T / math.sqrt(q.shape[1]))
            out[b][:, columns] = weights @ v
    return out, lse


def attention_backward(dout: Array, qkv: Array, heads: int, out: Array | None = None) -> Array:
    """Return dqkv [B,T,3C]. out: rounded, as backward may be given it; else it is exact."""
    dqkv = np.zeros_like(qkv)
    channels = qkv.shape[2] // 3
    for b in range(qkv.shape[0]):
        for h in range(heads):
            q, k, v, columns = _head(qkv[b], h, heads)
            scale = 1 / math.sqrt(q.shape[1])
            weights, _ = _causal_softmax(q @ k.T * scale)
            g = dout[b][:, columns]
            dweights = g @ v.T
            delta = (dweights * weights).sum(axis=1, keepdims=True)
            if out is not None:
                delta = (g * out[b][:, columns]).sum(axis=1, keepdims=True)
            ds = weights * (dweights - delta) * scale
            for part, gradient in enumerate((ds @ k, ds.T @ q, weights.T @ g)):
                first = part * channels + columns.start
                dqkv[b][:, first : first + q.shape[1]] = gradient
    return dqkv


def _head(qkv: Array, h: int, heads: int) -> tuple[Array, Array, Array, slice]:
    """Return q, k, v [T,head] of head h of one sequence, and its columns of out."""
    channels = qkv.shape[1] // 3
    size = channels // heads
    columns = slice(h * size, (h + 1) * size)
    q, k, v = (qkv[:, part * channels :][:, columns] for part in range(3))
    return q, k, v, columns


def _causal_softmax(scores: Array) -> tuple[Array, Array]:
    """Return softmax along the keys not after each query, and the log of its denominator."""
    weights, lse = np.zeros_like(scores), np.zeros(len(scores), scores.dtype)
    for i, row in enumerate(scores):
        peak = row[: i + 1].max()
        lse[i] = peak + np.log(np.exp(row[: i + 1] - peak).sum())
        weights[i, : i + 1] = np.exp(row[: i + 1] - lse[i])
    return weights, lse


def cross_entropy_forward(logits: Array, targets: Array) -> Array:
    """Return each row's loss in nats."""
    peak = logits.max(axis=1)
    lse = peak + np.log(np.exp(logits - peak[:, None]).sum(axis=1))
    return lse - logits[np.arange(len(logits)), targets]


def cross_entropy_backward(logits: Array, targets: Array, scale: float) -> Array:
    """Return dlogits of scale * sum of the rows' losses."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    weights[np.arange(len(logits)), targets] -= 1
    return weights * scale


def embedding_forward(tokens: Array, token_table: Array, position_table: Array) -> Array:
    """Return x [B,T,C]."""
    return token_table[tokens] + position_table[: tokens.shape[1]]


def embedding_backward(dx: Array, tokens: Array, vocabulary: int) -> tuple[Array, Array]:
    """Return dtoken [vocabulary,C] and dposition [T,C]."""
    dtoken = np.zeros((vocabulary, dx.shape[2]), dx.dtype)
    for b, t in np.ndindex(*tokens.shape):
        dtoken[tokens[b, t]] += dx[b, t]
    return dtoken, dx.sum(axis=0)


def learning_rate(
    step: int,
    total_steps: int,
    warmup_steps: int,
    lr_max: float,
    lr_min: float,
    schedule: str = "cosine",
) -> float:
    """Return the rate of step 1, 2, ...: linear warm-up, the schedule, and then where it ends."""
    if step <= warmup_steps:
        return lr_max * step / warmup_steps
    if schedule == "constant":
        return lr_max
    if step >= total_steps:
        return lr_min
    progress = (step - warmup_steps) / (total_steps - warmup_steps)
    if schedule == "linear":
        return lr_max + (lr_min - lr_max) * progress
    return lr_min + (lr_max - lr_min) * (1 + math.cos(math.pi * progress)) / 2


def gradient_norm(grad: Array, clip_norm: float) -> tuple[float, float, int]:
    """Return norm, clip coefficient and masked elements, one element at a time."""
    finite = [x for x in grad.tolist() if math.isfinite(x)]
    norm = math.sqrt(math.fsum(x * x for x in finite))
    coefficient = min(1.0, clip_norm / (norm + 1e-6)) if clip_norm else 1.0
    return norm, coefficient, grad.size - len(finite)


def moving_average(ema: Array, param: Array, decay: float, step: int, *, warmup: bool) -> Array:
    """Return the average of the weights after step 1, 2, ..., whose parameters are `param`."""
    keep = min(decay, (1 + step) / (10 + step)) if warmup else decay
    return keep * ema + (1 - keep) * param


def adamw(
    param: Array,
    m: Array,
    v: Array,
    grad: Array,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
    step: int,
    n_decay: int,
) -> tuple[Array, Array, Array]:
    """Return param, m and v after one step; the first n_decay elements decay."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    decayed = param.copy()
    decayed[:n_decay] *= 1 - lr * weight_decay
    m_hat, v_hat = m / (1 - beta1**step), v / (1 - beta2**step)
    return decayed - lr * m_hat / (np.sqrt(v_hat) + epsilon), m, v


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, ...]:
    """Return Philox4x32-10 of one counter, in Python integers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b % 2**32, (a >> 32) ^ c[3] ^ k[1], a % 2**32]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return tuple(c)
