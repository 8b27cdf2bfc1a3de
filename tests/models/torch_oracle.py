"""Gradients and AdamW steps of a PyTorch module whose forward returns its loss, as NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from tests.models.oracle import Row, compare, nudged, worst

__all__ = ["AdamWSettings", "Gradients", "gradients", "judge", "load", "tensor", "train"]

# The matrices are small: a second thread costs far more than it gives, most of all on busy cores.
torch.set_num_threads(1)

Array = npt.NDArray[Any]
Batch = tuple[Array, Array]


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


def load(module: nn.Module, state: Mapping[str, Array], dtype: Any) -> nn.Module:
    """The module in a dtype with these parameters; names must agree exactly."""
    module = module.to(dtype)
    tensors = {name: torch.from_numpy(value).to(dtype) for name, value in state.items()}
    module.load_state_dict(tensors, strict=True)
    return module


def tensor(values: Array, dtype: Any) -> torch.Tensor:
    """Tokens as PyTorch wants them, other values in a dtype."""
    found = torch.from_numpy(values)
    return found.to(dtype if values.dtype.kind == "f" else torch.int64)


def gradients(module: nn.Module, batch: Batch, dtype: Any) -> Gradients:
    """Loss and parameter gradients of one batch of inputs and targets."""
    loss = module(*(tensor(values, dtype) for values in batch))
    loss.backward()
    found = {
        name: parameter.grad.double().numpy()
        for name, parameter in module.named_parameters()
        if parameter.grad is not None
    }
    return Gradients(float(loss.detach()), found)


def judge(
    run: Callable[[Mapping[str, Array], Any], Gradients],
    weights: Mapping[str, Array],
    seed: int,
    ours: dict[str, npt.NDArray[np.float64]],
) -> tuple[float, Row]:
    """The loss, and the tensor of ours that is nearest to its limit, or furthest beyond.

    run: loss and gradients with these weights in a dtype. seed: of the weights' nudge.
    """
    single, double = run(weights, torch.float32), run(weights, torch.float64)
    draw = run(nudged(weights, seed), torch.float64)
    return double.loss, worst(compare(ours, single.by_name, double.by_name, draw.by_name))


def train(
    module: nn.Module, batches: Sequence[Batch], settings: AdamWSettings, dtype: Any
) -> tuple[list[float], dict[str, npt.NDArray[np.float64]]]:
    """Losses and final parameters of one AdamW step a batch."""
    matrices = [p for p in module.parameters() if p.dim() > 1]
    vectors = [p for p in module.parameters() if p.dim() == 1]
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1.0, betas=settings.betas, eps=settings.epsilon)
    losses = []
    for rate, batch in zip(settings.rates, batches, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss = module(*(tensor(values, dtype) for values in batch))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    final = {name: p.detach().double().numpy() for name, p in module.named_parameters()}
    return losses, final
