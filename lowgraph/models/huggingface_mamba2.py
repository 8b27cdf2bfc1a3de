"""mamba2-lm as transformers' Mamba2ForCausalLM with one group: names and layouts are the same.

Names and defaults: transformers' modeling_mamba2.py and configuration_mamba2.py. Its chunk_size
changes the order of sums and not the function, and ours is the kernels' own; a window's length is
no size of such a file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lowgraph.models.huggingface_family import Entry, Family, Setting
from lowgraph.models.mamba2_config import Mamba2LMConfig
from lowgraph.models.mamba2_parameters import parameter_specs

__all__ = ["MAMBA2"]


def _entries(shape: Mamba2LMConfig) -> list[Entry]:
    return [Entry(spec.name, spec.name, spec.shape, spec.shape) for spec in parameter_specs(shape)]


def _sizes(shape: Mamba2LMConfig) -> dict[str, int]:
    return {
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "expand": shape.expand,
        "num_heads": shape.mixer.heads,
        "head_dim": shape.head_size,
        "state_size": shape.state,
        "conv_kernel": shape.conv,
    }


def _notes(config: Mapping[str, Any]) -> list[str]:
    return []


MAMBA2 = Family(
    model="mamba2-lm",
    model_type="mamba2",
    architecture="Mamba2ForCausalLM",
    prefix="backbone.",
    sizes=_sizes,
    defaults={
        "vocab_size": 32768,
        "hidden_size": 4096,
        "num_hidden_layers": 64,
        "expand": 2,
        "num_heads": 128,
        "head_dim": 64,
        "state_size": 128,
        "conv_kernel": 4,
    },
    settings=(
        Setting("n_groups", 8, (1,), "all heads of mamba2-lm share one B and one C"),
        Setting("hidden_act", "silu", ("silu", "swish"), "mamba2-lm has SiLU"),
        Setting("layer_norm_epsilon", 1e-5, (1e-5,), "mamba2-lm's norms have 1e-5"),
        Setting("use_bias", False, (False,), "mamba2-lm's projections have no bias"),
        Setting("use_conv_bias", True, (True,), "mamba2-lm's convolution has a bias"),
        Setting(
            "time_step_limit",
            (0.0, math.inf),
            ((0.0, math.inf),),
            "mamba2-lm does not clamp its step sizes",
            written=False,  # JSON has no infinity
        ),
    ),
    # Tokens are bytes: none of them marks a beginning, an end or a gap.
    fixed={
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
        "residual_in_fp32": True,
    },
    entries=_entries,
    head="lm_head.weight",
    tied_from=None,
    tied_default=False,
    notes=_notes,
)
