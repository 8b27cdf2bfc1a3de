"""The oracle: the language model in PyTorch, and its gradients and AdamW steps as NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import nn

from lowgraph.models.presets import CharLMConfig

__all__ = ["LM", "AdamWSettings", "Gradients", "gradients", "module_gradients", "train",
           "train_module"]  # fmt: skip

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
        x = self.e(tokens) + self.p(torch.arange(tokens.shape[1]))
        for block in self.b:
            x = block(x)
        logits = self.hd(self.n(x)).flatten(0, 1)
        return F.cross_entropy(logits, targets.flatten())


@dataclass(frozen=True)
class Gradients:
    loss: float
    by_name: dict[str, npt.NDArray[np.float64]]


@dataclass(frozen=True)
class AdamWSettings:
    """One learning rate a step; decay goes to matrices and embeddings only."""

    rates: list[float]
    betas: tuple[float, float]
    epsilon: float
    weight_decay: float


def _module(config: CharLMConfig, state: State, dtype: torch.dtype) -> LM:
    module = LM(config).to(dtype)
    tensors = {name: torch.from_numpy(value).to(dtype) for name, value in state.items()}
    module.load_state_dict(tensors, strict=True)
    return module


def _long(values: Tokens) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.int64))


def gradients(
    config: CharLMConfig, state: State, tokens: Tokens, targets: Tokens, dtype: torch.dtype
) -> Gradients:
    """Loss and parameter gradients for tokens and targets [batch, context]."""
    return module_gradients(_module(config, state, dtype), tokens, targets)


def train(
    config: CharLMConfig,
    state: State,
    batches: list[tuple[Tokens, Tokens]],
    settings: AdamWSettings,
    dtype: torch.dtype,
) -> tuple[list[float], dict[str, npt.NDArray[np.float64]]]:
    """Losses and final parameters of one AdamW step a batch."""
    module = _module(config, state, dtype)
    losses = train_module(module, batches, settings)
    return losses, {name: p.detach().double().numpy() for name, p in module.named_parameters()}


def module_gradients(module: nn.Module, tokens: Tokens, targets: Tokens) -> Gradients:
    """As `gradients`, of a module that answers (tokens, targets) with the mean loss."""
    loss = module(_long(tokens), _long(targets))
    loss.backward()
    found = {
        name: parameter.grad.double().numpy()
        for name, parameter in module.named_parameters()
        if parameter.grad is not None
    }
    return Gradients(float(loss.detach()), found)


def train_module(
    module: nn.Module, batches: list[tuple[Tokens, Tokens]], settings: AdamWSettings
) -> list[float]:
    """Losses of one AdamW step a batch, of a module that answers with the mean loss."""
    matrices = [p for p in module.parameters() if p.dim() > 1]
    vectors = [p for p in module.parameters() if p.dim() == 1]
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1.0, betas=settings.betas, eps=settings.epsilon)
    losses = []
    for rate, (tokens, targets) in zip(settings.rates, batches, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss = module(_long(tokens), _long(targets))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses
