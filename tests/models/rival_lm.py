"""The oracle: the language model in PyTorch, and its gradients and AdamW steps as NumPy arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import nn

from lowgraph.models.presets import CharLMConfig
from tests.models import torch_oracle
from tests.models.torch_oracle import AdamWSettings, Gradients

__all__ = ["LM", "AdamWSettings", "Gradients", "gradients", "train"]

State = dict[str, npt.NDArray[np.float32]]
Tokens = npt.NDArray[np.integer]


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.l1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.o = nn.Linear(width, width)
        self.l2 = nn.LayerNorm(width)
        self.f1 = nn.Linear(width, 4 * width)
        self.f2 = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.shape
        packed = self.qkv(self.l1(x)).view(batch, time, 3, self.heads, width // self.heads)
        query, key, value = packed.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(batch, time, width))
        return x + self.f2(F.gelu(self.f1(self.l2(x)), approximate="tanh"))


class LM(nn.Module):
    """Byte-level transformer; parameter names are those of lowgraph's `charlm`."""

    def __init__(self, config: CharLMConfig) -> None:
        super().__init__()
        self.e = nn.Embedding(config.vocabulary, config.width)
        self.p = nn.Embedding(config.context, config.width)
        self.b = nn.ModuleList(Block(config.width, config.heads) for _ in range(config.layers))
        self.n = nn.LayerNorm(config.width)
        self.hd = nn.Linear(config.width, config.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.e(tokens) + self.p(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.b:
            x = block(x)
        logits = self.hd(self.n(x)).flatten(0, 1)
        return F.cross_entropy(logits, targets.flatten())


def gradients(
    config: CharLMConfig, state: State, tokens: Tokens, targets: Tokens, dtype: torch.dtype
) -> Gradients:
    """Loss and parameter gradients for tokens and targets [batch, context]."""
    module = torch_oracle.load(LM(config), state, dtype)
    return torch_oracle.gradients(module, (tokens, targets), dtype)


def train(
    config: CharLMConfig,
    state: State,
    batches: list[tuple[Tokens, Tokens]],
    settings: AdamWSettings,
    dtype: torch.dtype,
) -> tuple[list[float], dict[str, npt.NDArray[np.float64]]]:
    """Losses and final parameters of one AdamW step a batch."""
    return torch_oracle.train(torch_oracle.load(LM(config), state, dtype), batches, settings, dtype)
