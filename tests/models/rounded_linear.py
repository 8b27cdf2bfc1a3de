"""PyTorch modules that round what lowgraph's Mamba-2 models say they round with bfloat16, no more.

autocast rounds what every product writes, and the convolution; there only the operands of products
are rounded, and in the language model logits and gradients of norms' outputs, which are kept so.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

__all__ = ["round_operands"]

_KEPT = {"lm_head"}  # writes its output in bfloat16
_KEPT_GRADIENT = {"lm_head", "in_proj"}  # the gradient of its input


class _Product(torch.autograd.Function):
    """x weight^T of rounded factors; in backward dy is one."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, name: str) -> torch.Tensor:
        x, weight = _rounded(x), _rounded(weight)
        ctx.save_for_backward(x, weight)
        ctx.name = name
        y = F.linear(x, weight)
        return _rounded(y) if name in _KEPT else y

    @staticmethod
    def backward(ctx: Any, *dys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        x, weight = ctx.saved_tensors
        dy = _rounded(dys[0])
        dx = dy @ weight
        dweight = dy.flatten(0, -2).T @ x.flatten(0, -2)
        return _rounded(dx) if ctx.name in _KEPT_GRADIENT else dx, dweight, None


class _RoundedLinear(nn.Linear):
    name: str

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = _Product.apply(x, self.weight, self.name)
        return y if self.bias is None else y + self.bias


def round_operands(module: nn.Module) -> nn.Module:
    """The module, with linear layers that round; one of a single output is no product there."""
    for path, part in module.named_modules():
        if type(part) is nn.Linear and part.out_features > 1:
            part.__class__ = _RoundedLinear
            part.name = path.rpartition(".")[2]
    return module


def _rounded(x: torch.Tensor) -> torch.Tensor:
    """As a device rounds it, from float32 to the nearest, ties to even."""
    return x.to(torch.float32).to(torch.bfloat16).to(x.dtype)
