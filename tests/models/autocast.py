"""The language model in PyTorch under autocast: bfloat16 products over float32 parameters."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from lowgraph.models import CharLMConfig
from tests.models.rival_lm import LM

__all__ = ["gradients"]


def gradients(
    config: CharLMConfig,
    weights: dict[str, npt.NDArray[np.float32]],
    tokens: npt.NDArray[np.int32],
    targets: npt.NDArray[np.int32],
) -> tuple[float, dict[str, npt.NDArray[np.float64]]]:
    """Loss and parameter gradients for tokens and targets [batch, context]."""
    module = LM(config)
    module.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = module(*(torch.from_numpy(ids.astype(np.int64)) for ids in (tokens, targets)))
    loss.float().backward()
    found = {
        name: parameter.grad.double().numpy()
        for name, parameter in module.named_parameters()
        if parameter.grad is not None
    }
    return float(loss.detach()), found
