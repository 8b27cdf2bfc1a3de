"""Slow, obvious NumPy twins of the kernels of a Mamba-2 block, in the manner of twins.py.

The state space layer is its recurrence, one time step after another: no chunks, no products of
decays over more than one step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def conv1d_pre(x: Array, weight: Array, bias: Array) -> Array:
    """Return the convolution before its SiLU, [B,T,C]; x is zero before t = 0."""
    width = weight.shape[1]
    pre = np.zeros_like(x) + bias
    for t in range(x.shape[1]):
        for k in range(width):
            if t - (width - 1) + k >= 0:
                pre[:, t] += weight[:, k] * x[:, t - (width - 1) + k]
    return pre


def conv1d_forward(x: Array, weight: Array, bias: Array) -> Array:
    """Return y [B,T,C]."""
    pre = conv1d_pre(x, weight, bias)
    return pre * sigmoid(pre)


def conv1d_backward(dy: Array, x: Array, weight: Array, bias: Array) -> tuple[Array, ...]:
    """Return dx [B,T,C], dweight [C,W], dbias [C]."""
    width = weight.shape[1]
    dpre = dy * silu_slope(conv1d_pre(x, weight, bias))
    dx, dweight = np.zeros_like(x), np.zeros_like(weight)
    for t in range(x.shape[1]):
        for k in range(width):
            source = t - (width - 1) + k
            if source >= 0:
                dx[:, source] += weight[:, k] * dpre[:, t]
                dweight[:, k] += (dpre[:, t] * x[:, source]).sum(axis=0)
    return dx, dweight, dpre.sum(axis=(0, 1))


def silu_slope(x: Array) -> Array:
    """Return the derivative of x * sigmoid(x)."""
    return sigmoid(x) * (1 + x * (1 - sigmoid(x)))


def gated_norm_forward(x: Array, z: Array, weight: Array, epsilon: float) -> tuple[Array, Array]:
    """Return y [rows,C] and rstd [rows]."""
    u = x * z * sigmoid(z)
    rstd = 1 / np.sqrt((u**2).mean(axis=1) + epsilon)
    return u * rstd[:, None] * weight, rstd


def gated_norm_backward(
    dy: Array, x: Array, z: Array, weight: Array, epsilon: float
) -> tuple[Array, Array, Array]:
    """Return dx [rows,C], dz [rows,C], dweight [C]."""
    u = x * z * sigmoid(z)
    rstd = 1 / np.sqrt((u**2).mean(axis=1, keepdims=True) + epsilon)
    normed, g = u * rstd, dy * weight
    du = rstd * (g - normed * (g * normed).mean(axis=1, keepdims=True))
    return du * z * sigmoid(z), du * x * silu_slope(z), (dy * normed).sum(axis=0)


def rms_norm_forward(x: Array, weight: Array, epsilon: float) -> tuple[Array, Array]:
    """Return y [rows,C] and rstd [rows]."""
    rstd = 1 / np.sqrt((x**2).mean(axis=1) + epsilon)
    return x * rstd[:, None] * weight, rstd


def rms_norm_backward(dy: Array, x: Array, weight: Array, epsilon: float) -> tuple[Array, Array]:
    """Return dx [rows,C] and dweight [C]."""
    rstd = 1 / np.sqrt((x**2).mean(axis=1, keepdims=True) + epsilon)
    normed, g = x * rstd, dy * weight
    return rstd * (g - normed * (g * normed).mean(axis=1, keepdims=True)), (dy * normed).sum(axis=0)


def gated_update_forward(
    h: Array, gates: Array, gate_bias: Array, candidate_bias: Array
) -> tuple[Array, Array]:
    """Return next [rows,C], and s and t side by side [rows,2C]."""
    a, b = np.split(gates, 2, axis=1)
    s, t = sigmoid(a + gate_bias), np.tanh(b + candidate_bias)
    return h + s * t, np.concatenate([s, t], axis=1)


def gated_update_backward(
    dnext: Array, h: Array, gates: Array, gate_bias: Array, candidate_bias: Array
) -> Array:
    """Return da and db side by side [rows,2C]."""
    _, saved = gated_update_forward(h, gates, gate_bias, candidate_bias)
    s, t = np.split(saved, 2, axis=1)
    return np.concatenate([dnext * t * s * (1 - s), dnext * s * (1 - t**2)], axis=1)


def bce_forward(logits: Array, targets: Array) -> float:
    """Return the mean of -target log p - (1 - target) log(1 - p), p = sigmoid(logit)."""
    losses = targets * np.logaddexp(0, -logits) + (1 - targets) * np.logaddexp(0, logits)
    return float(losses.mean())


def bce_backward(logits: Array, targets: Array) -> Array:
    """Return the gradient of the mean."""
    return (sigmoid(logits) - targets) / logits.size


def softplus(x: Array) -> Array:
    """Return log(1 + exp(x))."""
    return np.logaddexp(0, x)


def ssd_forward(
    x: Array, raw: Array, dt_bias: Array, a_log: Array, b: Array, c: Array, d: Array
) -> Array:
    """Return y [B,T,H,P].

    x [B,T,H,P]; raw [B,T,H], of which the softplus with the bias is dt; dt_bias, a_log, d [H];
    b, c [B,T,N], shared by the heads.
    """
    y, _ = _ssd(x, softplus(raw + dt_bias), -np.exp(a_log), b, c, d)
    return y


def _ssd(x: Array, dt: Array, a: Array, b: Array, c: Array, d: Array) -> tuple[Array, list[Array]]:
    """Return y, and the state [B,H,P,N] before each step."""
    batch, length, heads, size = x.shape
    state, states, y = np.zeros((batch, heads, size, b.shape[2])), [], np.zeros_like(x)
    for t in range(length):
        states.append(state)
        decay = np.exp(dt[:, t] * a)
        new = np.einsum("bh,bhp,bn->bhpn", dt[:, t], x[:, t], b[:, t])
        state = decay[..., None, None] * state + new
        y[:, t] = np.einsum("bhpn,bn->bhp", state, c[:, t]) + d[:, None] * x[:, t]
    return y, states


def ssd_backward(
    dy: Array, x: Array, raw: Array, dt_bias: Array, a_log: Array, b: Array, c: Array, d: Array
) -> dict[str, Array]:
    """Return the gradients dx, draw, db, dc, ddt_bias, da_log, dd: back through each step."""
    dt, a = softplus(raw + dt_bias), -np.exp(a_log)
    _, states = _ssd(x, dt, a, b, c, d)
    dx, ddt, db, dc = d[:, None] * dy, np.zeros_like(dt), np.zeros_like(b), np.zeros_like(c)
    da, dstate = np.zeros_like(a), np.zeros_like(states[0])
    for t in reversed(range(x.shape[1])):
        decay = np.exp(dt[:, t] * a)
        outer = np.einsum("bhp,bn->bhpn", x[:, t], b[:, t])
        state = decay[..., None, None] * states[t] + dt[:, t, :, None, None] * outer
        dc[:, t] = np.einsum("bhpn,bhp->bn", state, dy[:, t])
        dstate = dstate + np.einsum("bhp,bn->bhpn", dy[:, t], c[:, t])
        ddecay = (dstate * states[t]).sum(axis=(2, 3)) * decay
        ddt[:, t] = ddecay * a + (dstate * outer).sum(axis=(2, 3))
        da += (ddecay * dt[:, t]).sum(axis=0)
        dx[:, t] += dt[:, t, :, None] * np.einsum("bhpn,bn->bhp", dstate, b[:, t])
        db[:, t] = np.einsum("bhpn,bh,bhp->bn", dstate, dt[:, t], x[:, t])
        dstate = decay[..., None, None] * dstate
    draw = ddt * sigmoid(raw + dt_bias)
    return {
        "dx": dx, "draw": draw, "db": db, "dc": dc, "ddt_bias": draw.sum(axis=(0, 1)),
        "da_log": da * a, "dd": (dy * x).sum(axis=(0, 1, 3)),
    }  # fmt: skip
