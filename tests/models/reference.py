"""The whole model in NumPy, forward and backward written out: slow, obvious, in any precision.

Its gradients are checked by central differences (test_reference.py) and it needs no PyTorch, so it
is the oracle where that is not installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowgraph.models.presets import CharLMConfig

__all__ = ["loss_and_gradients"]

Array = npt.NDArray[Any]
Weights = dict[str, Array]
EPSILON = 1e-5


def loss_and_gradients(
    config: CharLMConfig, weights: Weights, tokens: Array, targets: Array
) -> tuple[float, Weights]:
    """Mean cross-entropy and its gradients by name; tokens, targets [B, T]; in weights' dtype."""
    grads: Weights = {}
    x = weights["e.weight"][tokens] + weights["p.weight"]
    blocks = []
    for layer in range(config.layers):
        block = Block(config, weights, grads, f"b.{layer}.")
        x = block.forward(x)
        blocks.append(block)
    normed, norm = layer_norm(x, weights["n.weight"], weights["n.bias"])
    logits = normed @ weights["hd.weight"].T
    loss, dlogits = cross_entropy(logits, targets)

    grads["hd.weight"] = weight_gradient(dlogits, normed)
    dx, grads["n.weight"], grads["n.bias"] = layer_norm_backward(
        dlogits @ weights["hd.weight"], weights["n.weight"], norm
    )
    for block in reversed(blocks):
        dx = block.backward(dx)
    grads["p.weight"] = dx.sum(axis=0)
    grads["e.weight"] = np.zeros_like(weights["e.weight"])
    np.add.at(grads["e.weight"], tokens, dx)
    return loss, grads


@dataclass
class Block:
    """One transformer block; keeps from its forward what its backward reads."""

    config: CharLMConfig
    weights: Weights
    grads: Weights
    prefix: str

    def forward(self, x: Array) -> Array:
        self.normed1, self.norm1 = layer_norm(x, self._get("l1.weight"), self._get("l1.bias"))
        packed = self._linear("qkv", self.normed1)
        self.mixed, self.attention = attention(packed, self.config.heads)
        x = x + self._linear("o", self.mixed)
        self.normed2, self.norm2 = layer_norm(x, self._get("l2.weight"), self._get("l2.bias"))
        self.hidden = self._linear("f1", self.normed2)
        self.active = gelu(self.hidden)
        return x + self._linear("f2", self.active)

    def backward(self, dx: Array) -> Array:
        dactive = self._linear_backward("f2", dx, self.active)
        dhidden = dactive * gelu_slope(self.hidden)
        dnormed = self._linear_backward("f1", dhidden, self.normed2)
        dx = dx + self._norm_backward("l2", dnormed, self.norm2)
        dmixed = self._linear_backward("o", dx, self.mixed)
        dpacked = attention_backward(dmixed, self.attention)
        dnormed = self._linear_backward("qkv", dpacked, self.normed1)
        return dx + self._norm_backward("l1", dnormed, self.norm1)

    def _get(self, name: str) -> Array:
        return self.weights[self.prefix + name]

    def _linear(self, name: str, x: Array) -> Array:
        return x @ self._get(f"{name}.weight").T + self._get(f"{name}.bias")

    def _linear_backward(self, name: str, dy: Array, x: Array) -> Array:
        self.grads[f"{self.prefix}{name}.weight"] = weight_gradient(dy, x)
        self.grads[f"{self.prefix}{name}.bias"] = dy.sum(axis=(0, 1))
        return dy @ self._get(f"{name}.weight")

    def _norm_backward(self, name: str, dy: Array, saved: tuple[Array, Array]) -> Array:
        dx, dweight, dbias = layer_norm_backward(dy, self._get(f"{name}.weight"), saved)
        self.grads[f"{self.prefix}{name}.weight"] = dweight
        self.grads[f"{self.prefix}{name}.bias"] = dbias
        return dx


def weight_gradient(dy: Array, x: Array) -> Array:
    """[out, in] from dy [B, T, out] and x [B, T, in]."""
    return np.einsum("bto,bti->oi", dy, x)


def layer_norm(x: Array, weight: Array, bias: Array) -> tuple[Array, tuple[Array, Array]]:
    rstd = 1 / np.sqrt(x.var(axis=-1, keepdims=True) + EPSILON)
    unit = (x - x.mean(axis=-1, keepdims=True)) * rstd
    return unit * weight + bias, (unit, rstd)


def layer_norm_backward(
    dy: Array, weight: Array, saved: tuple[Array, Array]
) -> tuple[Array, Array, Array]:
    unit, rstd = saved
    dunit = dy * weight
    mean = dunit.mean(axis=-1, keepdims=True)
    along = (dunit * unit).mean(axis=-1, keepdims=True)
    dx = (dunit - mean - unit * along) * rstd
    return dx, (dy * unit).sum(axis=(0, 1)), dy.sum(axis=(0, 1))


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + _gelu_tanh(x))


def gelu_slope(x: Array) -> Array:
    tanh = _gelu_tanh(x)
    inner = np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x**2)
    return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh**2) * inner


def _gelu_tanh(x: Array) -> Array:
    return np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))


def _split_heads(packed: Array, heads: int) -> Array:
    batch, time, channels = packed.shape
    split = packed.reshape(batch, time, -1, heads, channels // 3 // heads)
    return np.moveaxis(split, 2, 0).transpose(0, 1, 3, 2, 4)


def attention(packed: Array, heads: int) -> tuple[Array, tuple[Array, ...]]:
    """Causal attention of q, k, v packed [B, T, 3 d]; returns [B, T, d] and what backward reads."""
    query, key, value = _split_heads(packed, heads)
    time, size = query.shape[-2:]
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(size)
    future = np.triu(np.ones((time, time), dtype=bool), k=1)
    scores = np.where(future, -np.inf, scores)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    mixed = (weights @ value).swapaxes(1, 2)
    return mixed.reshape(*packed.shape[:2], -1), (query, key, value, weights)


def attention_backward(dmixed: Array, saved: tuple[Array, ...]) -> Array:
    query, key, value, weights = saved
    batch, heads, time, size = query.shape
    dout = dmixed.reshape(batch, time, heads, size).swapaxes(1, 2)
    dweights = dout @ np.swapaxes(value, -1, -2)
    dscores = weights * (dweights - (dweights * weights).sum(axis=-1, keepdims=True))
    dscores = dscores / np.sqrt(size)
    dvalue = np.swapaxes(weights, -1, -2) @ dout
    parts = np.stack([dscores @ key, np.swapaxes(dscores, -1, -2) @ query, dvalue])
    return parts.transpose(1, 3, 0, 2, 4).reshape(batch, time, 3 * heads * size)


def cross_entropy(logits: Array, targets: Array) -> tuple[float, Array]:
    """Mean over all tokens, and its gradient by the logits."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_chance = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    hit = np.eye(logits.shape[-1], dtype=logits.dtype)[targets]
    loss = float(-(log_chance * hit).sum() / targets.size)
    return loss, (np.exp(log_chance) - hit) / targets.size
