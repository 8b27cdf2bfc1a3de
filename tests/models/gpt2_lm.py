"""transformers' GPT2LMHeadModel as an oracle of charlm: nobody here wrote it.

It is built from a configuration written here by hand, not by the product's writer, and run with
eager attention and without dropout.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from lowgraph.models.huggingface_family import Entry
from lowgraph.models.huggingface_gpt2 import GPT2
from lowgraph.models.presets import CharLMConfig

__all__ = ["LossOf", "build", "by_our_names", "fresh", "logits"]

Named = dict[str, npt.NDArray[Any]]

# Matrices this small are not worth a second thread: on a busy machine threads wait for each other,
# and a test takes twenty times as long.
torch.set_num_threads(1)


class LossOf(nn.Module):
    """A causal language model that answers (tokens, targets) with the mean cross-entropy."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        found = self.inner(input_ids=tokens, use_cache=False).logits
        return F.cross_entropy(found.flatten(0, 1), targets.flatten())


def fresh(config: CharLMConfig, **changes: Any) -> GPT2LMHeadModel:
    """A model of this shape with weights of transformers' own; changes: of its configuration."""
    settings = {
        "vocab_size": config.vocabulary,
        "n_positions": config.context,
        "n_embd": config.width,
        "n_layer": config.layers,
        "n_head": config.heads,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "resid_pdrop": 0.0,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": None,
        "attn_implementation": "eager",
        **changes,
    }
    return GPT2LMHeadModel(GPT2Config(**settings))


def build(config: CharLMConfig, weights: Named, dtype: torch.dtype) -> GPT2LMHeadModel:
    """A model with weights by our names; every one of its parameters must be among them."""
    model = fresh(config).to(dtype)
    tensors = {
        entry.theirs: torch.from_numpy(entry.to_theirs(weights[entry.ours])).to(dtype)
        for entry in _entries(config)
    }
    model.load_state_dict(tensors, strict=True)
    return model


def by_our_names(config: CharLMConfig, tensors: Named) -> Named:
    """Tensors of a LossOf's parameters by our names and in our layout; float64 stays."""
    found = {}
    for entry in _entries(config):
        value = tensors[f"inner.{entry.theirs}"]
        found[entry.ours] = value.T if entry.transposed else value
    assert len(found) == len(tensors)
    return found


def logits(model: nn.Module, tokens: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Logits [batch, time, classes] of tokens [batch, time]."""
    with torch.no_grad():
        given = torch.from_numpy(tokens.astype(np.int64))
        answer: npt.NDArray[Any] = model(input_ids=given, use_cache=False).logits.numpy()
    return answer


def _entries(config: CharLMConfig) -> list[Entry]:
    return GPT2.entries(config)
