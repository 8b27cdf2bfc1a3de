"""The oracle: torch.optim.AdamW, clip_grad_norm_ and AveragedModel over the bench's tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from tests.optim.bench import DECAYED, SHAPES, Tensors

__all__ = ["Rival"]


class Rival:
    """An optimizer in one dtype. clip 0: no clipping. decay: of the average of the weights."""

    def __init__(
        self, parameters: Tensors, dtype: torch.dtype, *, clip: float = 0.0, decay: float = 0.5
    ) -> None:
        tensors = {n: torch.nn.Parameter(torch.from_numpy(v).to(dtype)) for n, v in
                   parameters.items()}  # fmt: skip
        self.module = torch.nn.ParameterDict(tensors)
        self.dtype, self.clip = dtype, clip
        groups = [
            {"params": [tensors[name] for name in DECAYED], "weight_decay": 0.1},
            {"params": [tensors[n] for n in SHAPES if n not in DECAYED], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.95), eps=1e-8)
        average = get_ema_multi_avg_fn(decay)
        self.average = AveragedModel(self.module, multi_avg_fn=average)
        self.average.update_parameters(self.module)  # its first call copies
        self.norms: list[float] = []

    def step(self, gradients: Mapping[str, npt.NDArray[Any]], lr: float) -> None:
        for name, parameter in self.module.items():
            parameter.grad = torch.from_numpy(gradients[name].copy()).to(self.dtype)
        limit = self.clip if self.clip else float("inf")
        self.norms.append(float(torch.nn.utils.clip_grad_norm_(self.module.parameters(), limit)))
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.average.update_parameters(self.module)

    def parameters(self) -> Tensors:
        return {name: p.detach().double().numpy() for name, p in self.module.items()}

    def ema(self) -> Tensors:
        return {name: p.detach().double().numpy() for name, p in self.average.module.items()}
