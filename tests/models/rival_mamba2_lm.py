"""The oracle of `mamba2-lm`: transformers' Mamba2ForCausalLM on the CPU, in any precision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn
from transformers import Mamba2Config, Mamba2ForCausalLM
from transformers.models.mamba2 import modeling_mamba2

from lowgraph.models.mamba2_config import Mamba2LMConfig

__all__ = ["LM", "all_in"]


class LM(nn.Module):
    """Loss of tokens and targets [B, T]; the parameters have the names of transformers' model."""

    def __init__(self, config: Mamba2LMConfig, chunk: int = 32) -> None:
        super().__init__()
        sizes = config.mixer
        model = Mamba2ForCausalLM(
            Mamba2Config(
                vocab_size=config.vocabulary,
                hidden_size=config.width,
                num_hidden_layers=config.layers,
                num_heads=sizes.heads,
                head_dim=config.head_size,
                state_size=config.state,
                expand=config.expand,
                conv_kernel=config.conv,
                n_groups=1,
                hidden_act="silu",
                use_bias=False,
                use_conv_bias=True,
                tie_word_embeddings=False,
                residual_in_fp32=True,
                chunk_size=chunk,
                use_cache=False,
                pad_token_id=None,
            )
        )
        self.backbone = model.backbone
        self.lm_head = model.lm_head

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = self.lm_head(self.backbone(tokens, use_cache=False)[0])
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class _Named:
    """The torch module, but its `float32` is another dtype."""

    def __init__(self, dtype: Any) -> None:
        self.float32 = dtype

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


@contextmanager
def all_in(dtype: Any) -> Iterator[None]:
    """transformers computes norms and states in float32 whatever the weights are: here in dtype."""
    with (
        mock.patch.object(modeling_mamba2, "torch", _Named(dtype)),
        mock.patch.object(torch.Tensor, "float", lambda tensor: tensor.to(dtype)),
    ):
        yield
