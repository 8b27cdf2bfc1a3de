"""The oracle of a whole run in PyTorch: micro-batches, clip_grad_norm_, AdamW, AveragedModel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from lowgraph.train.plan import Schedule
from tests.models.torch_oracle import tensor
from tests.ops import twins

__all__ = ["Run", "train"]

Array = npt.NDArray[Any]
Named = dict[str, npt.NDArray[np.float64]]


@dataclass
class Run:
    """losses, norms (before clipping): of each step. parameters, ema: at the end."""

    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    parameters: Named = field(default_factory=dict)
    ema: Named = field(default_factory=dict)


def train(
    module: nn.Module, batches: Sequence[tuple[Array, Array]], schedule: Schedule, dtype: Any
) -> Run:
    """One step a batch; each is cut into the schedule's micro-batches."""
    groups = [
        {"params": [p for p in module.parameters() if p.dim() > 1],
         "weight_decay": schedule.weight_decay},
        {"params": [p for p in module.parameters() if p.dim() == 1], "weight_decay": 0.0},
    ]  # fmt: skip
    betas = schedule.beta1, schedule.beta2
    optimizer = torch.optim.AdamW(groups, lr=1.0, betas=betas, eps=schedule.epsilon)
    average = _average(module, schedule.ema_decay)
    run = Run()
    for step, batch in enumerate(batches, 1):
        optimizer.zero_grad()
        run.losses.append(_accumulate(module, batch, schedule.accumulate, dtype))
        limit = schedule.clip_norm or float("inf")
        run.norms.append(float(nn.utils.clip_grad_norm_(module.parameters(), limit)))
        for group in optimizer.param_groups:
            group["lr"] = _rate(schedule, step)
        optimizer.step()
        average.update_parameters(module)
    run.parameters = _arrays(module)
    run.ema = _arrays(average.module)
    return run


def _accumulate(module: nn.Module, batch: tuple[Array, Array], count: int, dtype: Any) -> float:
    whole = 0.0
    for parts in zip(*(np.split(values, count) for values in batch), strict=True):
        loss = module(*(tensor(values, dtype) for values in parts)) / count
        loss.backward()
        whole += float(loss.detach())
    return whole


def _average(module: nn.Module, decay: float) -> AveragedModel:
    def moved(average: torch.Tensor, value: torch.Tensor, steps: Any) -> torch.Tensor:
        kept = min(decay, (1 + int(steps)) / (10 + int(steps)))
        return kept * average + (1 - kept) * value

    average = AveragedModel(module, avg_fn=moved)
    average.update_parameters(module)  # its first call copies, and makes the next one's `steps` 1
    return average


def _rate(schedule: Schedule, step: int) -> float:
    peak = schedule.learning_rate
    end = peak * schedule.final_share
    return twins.learning_rate(step, schedule.steps, schedule.warmup, peak, end, schedule.schedule)


def _arrays(module: nn.Module) -> Named:
    return {name: p.detach().double().numpy().copy() for name, p in module.named_parameters()}
