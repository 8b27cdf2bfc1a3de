"""The models of the train rows in PyTorch, as its users write them: a module returns its loss.

Parameter names are lowgraph's, so that both start from the same file of weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["MODELS"]


class Block(nn.Module):
    """Pre-norm attention and MLP of width d."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.l1, self.l2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.f1, self.f2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, d] to the same."""
        packed = self.qkv(self.l1(x)).unflatten(-1, (3, self.heads, -1))
        query, key, value = packed.permute(2, 0, 3, 1, 4)
        # Flash attention where the card and the types have it.
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.o(mixed.transpose(1, 2).flatten(2))
        return x + self.f2(F.gelu(self.f1(self.l2(x)), approximate="tanh"))


class CharLM(nn.Module):
    """The language model: learned positions, untied head without a bias."""

    def __init__(self, shape: Mapping[str, int]) -> None:
        super().__init__()
        vocabulary, width, context = shape["vocabulary"], shape["width"], shape["context"]
        self.e, self.p = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.b = nn.ModuleList(Block(width, shape["heads"]) for _ in range(shape["layers"]))
        self.n = nn.LayerNorm(width)
        self.hd = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy of targets [B, T]."""
        x = self.e(tokens) + self.p.weight
        for block in self.b:
            x = block(x)
        logits = self.hd(self.n(x)).flatten(0, 1)
        return F.cross_entropy(logits.float(), targets.flatten())


class Mixer(nn.Module):
    """A Mamba-2 block: short convolution, state-space scan in chunks, gated norm.

    Chunks of 64 are this model's fastest on an H200: 475 us a whole compiled step, 507 with 32.
    """

    def __init__(self, shape: Mapping[str, int], chunk: int = 64) -> None:
        super().__init__()
        self.inner, self.head = shape["expand"] * shape["width"], shape["head_size"]
        self.state, self.taps, self.chunk = shape["state"], shape["conv"], chunk
        heads, mixed = self.inner // self.head, self.inner + 2 * self.state
        self.sizes = (self.inner, mixed, heads)
        self.inp = nn.Linear(shape["width"], self.inner + mixed + heads, bias=False)
        self.conv = nn.Conv1d(mixed, mixed, self.taps, groups=mixed)
        self.dtb, self.Alog, self.D = (nn.Parameter(torch.zeros(heads)) for _ in range(3))
        self.nw = nn.Parameter(torch.ones(self.inner))
        self.out = nn.Linear(self.inner, shape["width"], bias=False)

    def forward(self, u: Tensor) -> Tensor:
        """[B, T, d] to the same."""
        gate, mixed, raw = self.inp(u).split(self.sizes, dim=-1)
        mixed = self.conv(F.pad(mixed.transpose(1, 2), (self.taps - 1, 0)))
        x, b, c = F.silu(mixed).transpose(1, 2).split((self.inner, self.state, self.state), dim=-1)
        x, dt = x.unflatten(-1, (-1, self.head)), F.softplus(raw + self.dtb)
        y = self.scan(x * dt[..., None], -dt * self.Alog.exp(), b, c) + self.D[:, None] * x
        return self.out(F.rms_norm(y.flatten(2) * F.silu(gate), (self.inner,), self.nw, 1e-5))

    def scan(self, x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor) -> Tensor:
        """y of h[t] = exp(log_decay[t]) h[t-1] + x[t] b[t]^T, y[t] = h[t] c[t].

        x [B, T, H, P], log_decay [B, T, H], b and c [B, T, N]. Within chunks of Q steps as matrix
        products, between them by the decays of whole chunks: the SSD form of the Mamba-2 paper.
        """
        length = x.shape[1]
        pad = -length % self.chunk
        if pad:  # steps of no input behind the end
            x, b, c = (F.pad(v, (0, 0) * (v.dim() - 2) + (0, pad)) for v in (x, b, c))
            log_decay = F.pad(log_decay, (0, 0, 0, pad))
        x, log_decay, b, c = (v.unflatten(1, (-1, self.chunk)) for v in (x, log_decay, b, c))
        past = log_decay.cumsum(2)  # [B, n, Q, H]
        between = past[:, :, :, None] - past[:, :, None]  # [B, n, i, j, H]
        causal = torch.ones(self.chunk, self.chunk, dtype=torch.bool, device=x.device).tril()
        weight = between.masked_fill(~causal[..., None], float("-inf")).exp()
        scores = c @ b.transpose(-1, -2)
        inside = torch.einsum("znijh,znjhp->znihp", scores[..., None] * weight, x)
        added = torch.einsum("znjs,znjhp->znhps", b, (past[:, :, -1:] - past).exp()[..., None] * x)
        carried = self.carry(added, past[:, :, -1])
        arrived = torch.einsum("znis,znhps->znihp", c, carried) * past.exp()[..., None]
        return (inside + arrived).flatten(1, 2)[:, :length]

    @staticmethod
    def carry(added: Tensor, decay: Tensor) -> Tensor:
        """The state before each chunk, from what chunks add [B, n, ...] and their log decays."""
        state, before = torch.zeros_like(added[:, 0]), []
        for chunk in range(added.shape[1]):
            before.append(state)
            state = state * decay[:, chunk].exp()[..., None, None] + added[:, chunk]
        return torch.stack(before, dim=1)


class Perception(nn.Module):
    """Input, one mixer, K gated refinements with shared weights, one logit a time step."""

    def __init__(self, shape: Mapping[str, int]) -> None:
        super().__init__()
        width = shape["width"]
        self.loops = shape["loops"]
        self.e, self.m = nn.Linear(shape["features"], width), Mixer(shape)
        self.g, self.k = nn.Linear(width, width), nn.Linear(width, width)
        self.o = nn.Linear(width, 1)

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Mean binary cross-entropy of targets [B, T]."""
        h = self.e(inputs)
        h = h + self.m(h)
        for _ in range(self.loops):
            h = h + torch.sigmoid(self.g(h)) * torch.tanh(self.k(h))
        return F.binary_cross_entropy_with_logits(self.o(h)[..., 0].float(), targets)


class Mlp(nn.Module):
    """Hidden layers with ReLU, and a head; rows come as windows of one."""

    def __init__(self, shape: Mapping[str, int]) -> None:
        super().__init__()
        width = shape["width"]
        inputs = [shape["features"], *[width] * (shape["layers"] - 1)]
        self.l = nn.ModuleList(nn.Linear(size, width) for size in inputs)
        self.o = nn.Linear(width, shape["classes"])

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy of targets [B, 1]."""
        h = inputs[:, 0]
        for layer in self.l:
            h = F.relu(layer(h))
        return F.cross_entropy(self.o(h).float(), targets[:, 0])


MODELS: dict[str, Callable[[Mapping[str, Any]], nn.Module]] = {
    "charlm": CharLM,
    "mamba2": Perception,
    "mlp": Mlp,
}
