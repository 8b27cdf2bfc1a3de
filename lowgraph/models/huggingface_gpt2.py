"""charlm as transformers' GPT2LMHeadModel: the same function under other names and layouts.

GPT-2's four projections of a block are `Conv1D`, which keeps its weight [in, out]; the head is a
linear layer [out, in], as ours all are. Query, key and value lie in one projection in that order in
both. Names and defaults: transformers' modeling_gpt2.py and configuration_gpt2.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lowgraph.models.huggingface_family import Entry, Family, Setting
from lowgraph.models.parameters import parameter_specs
from lowgraph.models.presets import CharLMConfig

__all__ = ["GPT2"]

_TOP = {"e": "wte", "p": "wpe", "n": "ln_f"}
_BLOCK = {
    "l1": "ln_1",
    "qkv": "attn.c_attn",
    "o": "attn.c_proj",
    "l2": "ln_2",
    "f1": "mlp.c_fc",
    "f2": "mlp.c_proj",
}
_CONV1D = ("qkv.weight", "o.weight", "f1.weight", "f2.weight")
_DROPOUTS = ("attn_pdrop", "embd_pdrop", "resid_pdrop")
_HEAD = "lm_head.weight"


def _entries(shape: CharLMConfig) -> list[Entry]:
    found = []
    for spec in parameter_specs(shape):
        transposed = spec.name.endswith(_CONV1D)
        there = spec.shape[::-1] if transposed else spec.shape
        found.append(Entry(spec.name, _theirs(spec.name), spec.shape, there, transposed))
    return found


def _theirs(name: str) -> str:
    """GPT-2's name of a parameter: "b.0.qkv.weight" is "transformer.h.0.attn.c_attn.weight"."""
    layer, kind = name.rsplit(".", 1)
    if layer == "hd":
        return _HEAD
    if not layer.startswith("b."):
        return f"transformer.{_TOP[layer]}.{kind}"
    _, number, part = layer.split(".")
    return f"transformer.h.{number}.{_BLOCK[part]}.{kind}"


def _sizes(shape: CharLMConfig) -> dict[str, int]:
    return {
        "vocab_size": shape.vocabulary,
        "n_positions": shape.context,
        "n_embd": shape.width,
        "n_layer": shape.layers,
        "n_head": shape.heads,
    }


def _notes(config: Mapping[str, Any]) -> list[str]:
    dropouts = [f"{key} {config[key]}" for key in _DROPOUTS if config.get(key)]
    if not dropouts:
        return []
    return [f"config.json asks for dropout ({', '.join(dropouts)}); charlm trains without"]


# n_inner: absent or null means four times n_embd, the only width that charlm's mlp has; a file that
# spells the number out would be refused by a wrong shape of c_fc, were it another one.
GPT2 = Family(
    model="charlm",
    model_type="gpt2",
    architecture="GPT2LMHeadModel",
    prefix="transformer.",
    sizes=_sizes,
    defaults={
        "vocab_size": 50257,
        "n_positions": 1024,
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
    },
    settings=(
        Setting(
            "activation_function",
            "gelu_new",
            ("gelu_new", "gelu_pytorch_tanh"),
            "charlm has the tanh form of GELU",
        ),
        Setting("layer_norm_epsilon", 1e-5, (1e-5,), "charlm's norms have 1e-5"),
        Setting("scale_attn_weights", True, (True,), "charlm divides scores by sqrt(head size)"),
        Setting(
            "scale_attn_by_inverse_layer_idx", False, (False,), "charlm scales all layers alike"
        ),
        Setting("add_cross_attention", False, (False,), "charlm attends to its own text only"),
    ),
    # Tokens are bytes: none of them marks a beginning or an end.
    fixed={**dict.fromkeys(_DROPOUTS, 0.0), "bos_token_id": None, "eos_token_id": None},
    entries=_entries,
    head=_HEAD,
    tied_from="transformer.wte.weight",
    tied_default=True,
    notes=_notes,
    # Old files hold the causal mask of each block.
    buffers=(".attn.bias", ".attn.masked_bias"),
)
