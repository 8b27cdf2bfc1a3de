"""What a preset is; the shape of a `charlm` and its named sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from lowgraph.errors import ConfigError

__all__ = ["PRESETS", "CharLMConfig", "Preset"]

Shape = TypeVar("Shape")


@dataclass(frozen=True)
class CharLMConfig:
    """Shape of a `charlm`.

    Attributes
    ----------
    context: T, tokens in a window.
    width: d, channels of the residual stream.
    heads: attention heads; each has width / heads channels, a multiple of 4.
    layers: L, transformer blocks.
    vocabulary: V, 256 for bytes.

    Raises ConfigError when a size is below 1 or the heads do not divide the width so.
    """

    context: int
    width: int
    heads: int
    layers: int
    vocabulary: int = 256

    def __post_init__(self) -> None:
        for label in ("context", "width", "heads", "layers", "vocabulary"):
            size = getattr(self, label)
            if size < 1:
                raise ConfigError(f"model: {label} must be at least 1, got {size}")
        # The attention kernels move four channels at a time.
        if self.width % (4 * self.heads):
            raise ConfigError(
                f"model: {self.heads} heads do not divide the width {self.width} into multiples "
                f"of 4 channels; choose a width that is a multiple of {4 * self.heads}"
            )

    @property
    def head_size(self) -> int:
        """Channels of one attention head."""
        return self.width // self.heads


@dataclass(frozen=True)
class Preset(Generic[Shape]):
    """A named size of a model with what it is trained with unless flags say otherwise.

    Attributes
    ----------
    model: the model's shape, a ModelConfig.
    batch: B, windows in a step.
    steps: steps of a run.
    learning_rate: the peak, reached after the warm-up.
    """

    model: Shape
    batch: int
    steps: int
    learning_rate: float


# The learning rate falls with the width. nano's was searched: 1 000 steps end at 2.25, 2.12, 1.94
# nats held out for 1e-3, 3e-3 (initial scale 0.02) and 6e-3 (0.08, see parameters.py); bigram 2.48.
PRESETS = {
    "nano": Preset(CharLMConfig(64, 64, 4, 2), batch=8, steps=200, learning_rate=6e-3),
    "tiny": Preset(CharLMConfig(128, 128, 4, 2), batch=16, steps=500, learning_rate=4e-3),
    "small": Preset(CharLMConfig(256, 256, 8, 4), batch=16, steps=2000, learning_rate=2e-3),
    # GPT-2's smallest shape with a head of its own; its 50257 tokens rounded up to whole tiles. A
    # text's tokens are bytes, the first 256 of them: the size is for timing and for weights.
    "gpt2": Preset(CharLMConfig(1024, 768, 12, 12, 50304), batch=8, steps=5000, learning_rate=6e-4),
}
