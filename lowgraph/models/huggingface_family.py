"""What a family of Hugging Face checkpoints and a model of ours have in common, as data.

A family says which keys of config.json hold the sizes, which settings the model's arithmetic fixes,
and which tensor is which parameter. Two of them: huggingface_gpt2, huggingface_mamba2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowgraph.errors import ConfigError

__all__ = ["Entry", "Family", "Setting"]

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Entry:
    """One parameter: its name here, the tensor's there, and the shape of either.

    transposed: the tensor lies the other way round, [in, out] where ours is [out, in].
    """

    ours: str
    theirs: str
    shape: tuple[int, ...]
    their_shape: tuple[int, ...]
    transposed: bool = False

    def to_ours(self, tensor: Array) -> Array:
        """The parameter of a tensor of `their_shape`; a new array."""
        turned = tensor.T if self.transposed else tensor.reshape(self.shape)
        return np.array(turned, np.float32, order="C")

    def to_theirs(self, parameter: Array) -> Array:
        """The tensor of a parameter of `shape`, contiguous."""
        turned = parameter.T if self.transposed else parameter.reshape(self.their_shape)
        return np.ascontiguousarray(turned, np.float32)


@dataclass(frozen=True)
class Setting:
    """A key of config.json that the model's arithmetic fixes.

    default: what transformers takes for a file without the key. allowed: values that mean what the
    model computes; the first of them is written. why: what the model has, for the error.
    written: False leaves the key to its default.
    """

    key: str
    default: Any
    allowed: tuple[Any, ...]
    why: str
    written: bool = True

    def check(self, where: str, config: Mapping[str, Any]) -> None:
        """Raise ConfigError, saying what to do, for a value that means another function."""
        value = _plain(config.get(self.key, self.default))
        if value not in self.allowed:
            raise ConfigError(
                f"{where}: {self.key} is {value!r}, {self.why}; choose a checkpoint with "
                f"{self.key} {' or '.join(repr(one) for one in self.allowed)}"
            )


@dataclass(frozen=True)
class Family:
    """See the module.

    Attributes
    ----------
    model: our name of it. model_type, architecture: theirs, as config.json spells them.
    prefix: of the names of all tensors but the head's.
    sizes: config.json's sizes of a shape of ours, by key. defaults: theirs where a key is absent.
    settings: what else config.json must say.
    fixed: keys that are written and not checked: they change nothing that is computed here.
    entries: the parameters of a shape.
    head: the head's tensor. tied_from: the tensor that is the head's too where config.json ties
        them; None: such a file is refused. tied_default: as defaults.
    notes: what of a config.json people should know, a line each.
    buffers: ends of the names of tensors that are no parameters.
    """

    model: str
    model_type: str
    architecture: str
    prefix: str
    sizes: Callable[[Any], dict[str, int]]
    defaults: Mapping[str, int]
    settings: tuple[Setting, ...]
    fixed: Mapping[str, Any]
    entries: Callable[[Any], list[Entry]]
    head: str
    tied_from: str | None
    tied_default: bool
    notes: Callable[[Mapping[str, Any]], list[str]]
    buffers: tuple[str, ...] = ()

    def is_tied(self, config: Mapping[str, Any]) -> bool:
        """Whether a config.json makes the head and the embedding one tensor."""
        return bool(config.get("tie_word_embeddings", self.tied_default))

    def check(self, where: str, config: Mapping[str, Any], shape: Any) -> None:
        """Raise ConfigError unless config.json describes our model of this shape."""
        kind = config.get("model_type")
        if kind != self.model_type:
            raise ConfigError(
                f"{where}: model_type is {kind!r}; {self.model} loads {self.model_type!r} only: "
                f"choose another model or another checkpoint"
            )
        for setting in self.settings:
            setting.check(where, config)
        if self.tied_from is None and self.is_tied(config):
            raise ConfigError(
                f"{where}: tie_word_embeddings is true, {self.model} has a head of its own; load "
                "it in transformers, copy the embedding into the head, set tie_word_embeddings to "
                "false and save it again"
            )
        self._check_sizes(where, config, shape)

    def config(self, shape: Any) -> dict[str, Any]:
        """The config.json of a shape of ours."""
        return {
            "architectures": [self.architecture],
            "model_type": self.model_type,
            **self.sizes(shape),
            **{item.key: item.allowed[0] for item in self.settings if item.written},
            **self.fixed,
            "tie_word_embeddings": False,
            "torch_dtype": "float32",
        }

    def named(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """A file's tensors by full name, what holds no parameter left out.

        A model saved without its head has no prefix, and the models of the first years do so too.
        """
        bare = not any(name.startswith(self.prefix) for name in tensors)
        start = self.prefix if bare else ""
        return {
            name if name == self.head else start + name: value
            for name, value in tensors.items()
            if not name.endswith(self.buffers)
        }

    def _check_sizes(self, where: str, config: Mapping[str, Any], shape: Any) -> None:
        wanted = self.sizes(shape)
        found = {key: config.get(key, self.defaults.get(key)) for key in wanted}
        wrong = [
            f"{key} is {found[key]!r}, not {size}"
            for key, size in wanted.items()
            if found[key] != size
        ]
        if wrong:
            raise ConfigError(
                f"{where}: not the shape of this {self.model}: {'; '.join(wrong)}; choose the size "
                "of the model that the checkpoint has, or another checkpoint"
            )


def _plain(value: Any) -> Any:
    """A value of config.json with lists as tuples and transformers 5's spelling of infinity."""
    if isinstance(value, list):
        return tuple(_plain(item) for item in value)
    if value == {"__float__": "Infinity"}:
        return math.inf
    return value
