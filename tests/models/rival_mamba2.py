"""The oracle of `mamba2` in PyTorch, in any precision: the recurrence, one time step after another.

No chunks and no products of decays over more than one step, so that it shares nothing with the
kernels but the definition.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from lowgraph.models.mamba2_config import Mamba2Config

__all__ = ["Perception"]


class Mixer(nn.Module):
    """Parameter names are those of lowgraph's `mamba2`."""

    def __init__(self, config: Mamba2Config) -> None:
        super().__init__()
        self.sizes = sizes = config.mixer
        self.inp = nn.Linear(sizes.width, sizes.projected, bias=False)
        self.conv = nn.Conv1d(sizes.convolved, sizes.convolved, sizes.conv, groups=sizes.convolved)
        self.dtb, self.Alog, self.D = (nn.Parameter(torch.zeros(sizes.heads)) for _ in range(3))
        self.nw = nn.Parameter(torch.ones(sizes.inner))
        self.out = nn.Linear(sizes.inner, sizes.width, bias=False)

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        sizes = self.sizes
        gate, xbc, raw = self.inp(u).split([sizes.inner, sizes.convolved, sizes.heads], dim=-1)
        padded = F.pad(xbc.transpose(1, 2), (sizes.conv - 1, 0))
        xbc = F.silu(self.conv(padded)).transpose(1, 2)
        x, b, c = xbc.split([sizes.inner, sizes.state, sizes.state], dim=-1)
        x = x.unflatten(-1, (sizes.heads, sizes.head_size))
        y = self.scan(x, F.softplus(raw + self.dtb), b, c) + self.D[:, None] * x
        y = y.flatten(2) * F.silu(gate)
        return self.out(F.rms_norm(y, (sizes.inner,), self.nw, 1e-5))

    def scan(
        self, x: torch.Tensor, dt: torch.Tensor, b: torch.Tensor, c: torch.Tensor
    ) -> torch.Tensor:
        """State h [B, heads, P, N]: decays, takes in dt x (outer) B, is read by C."""
        decay = torch.exp(-dt * torch.exp(self.Alog))
        state = x.new_zeros(())
        outputs = []
        for t in range(x.shape[1]):
            added = (dt[:, t, :, None] * x[:, t])[..., None] * b[:, t, None, None]
            state = decay[:, t, :, None, None] * state + added
            outputs.append((state * c[:, t, None, None]).sum(dim=-1))
        return torch.stack(outputs, dim=1)


class Perception(nn.Module):
    """Loss of inputs [B, T, F] and targets [B, T]."""

    def __init__(self, config: Mamba2Config) -> None:
        super().__init__()
        self.loops = config.loops
        self.e = nn.Linear(config.features, config.width)
        self.m = Mixer(config)
        self.g = nn.Linear(config.width, config.width)
        self.k = nn.Linear(config.width, config.width)
        self.o = nn.Linear(config.width, 1)

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        h = self.e(inputs)
        h = h + self.m(h)
        for _ in range(self.loops):
            h = h + torch.sigmoid(self.g(h)) * torch.tanh(self.k(h))
        return F.binary_cross_entropy_with_logits(self.o(h)[..., 0], targets)
