"""Shapes of the Mamba-2 models, and their named sizes."""

from __future__ import annotations

from dataclasses import dataclass, fields

from lowgraph.errors import ConfigError
from lowgraph.models.presets import Preset

__all__ = [
    "LM_PRESETS",
    "PRESETS",
    "Mamba2Config",
    "Mamba2LMConfig",
    "MixerSizes",
]

_WIDEST_CONV = 8  # taps that the convolution's kernels are compiled for
_MOST_HEADS = 65535  # a head is a row of the launch grid, which has no more of them
_LARGEST_STATE = 2**31 - 1  # the kernels count a head's state in an int
# The weights of the loop's two products are one matrix, so they lie without a gap in the arena,
# which begins tensors at multiples of 64 elements: width * width must be one.
_LOOP_UNIT = 8
_ONE_DEPTH = (
    "a graph records one depth, and a depth that is drawn in every step cannot be replayed; give "
    "one number, or a body of your own whose WHILE node holds the loop (docs/conditional.md)"
)


@dataclass(frozen=True)
class MixerSizes:
    """Shape of one Mamba-2 block: what its kernels are called with.

    Attributes
    ----------
    width: d, channels that come in and go out.
    inner: expand * d, channels inside, in `heads` heads of `head_size`.
    state: N, elements of the state for each inner channel.
    conv: taps of the convolution.
    """

    width: int
    inner: int
    head_size: int
    state: int
    conv: int

    @property
    def heads(self) -> int:
        """Heads, each with a decay of its own."""
        return self.inner // self.head_size

    @property
    def convolved(self) -> int:
        """Channels of the convolution: the inner ones and both state projections, x, B and C."""
        return self.inner + 2 * self.state

    @property
    def projected(self) -> int:
        """Outputs of the in-projection, in this order: gate z, x, B, C, a step size a head."""
        return self.inner + self.convolved + self.heads


@dataclass(frozen=True)
class Mamba2Config:
    """Shape of a `mamba2`: it says of every time step of a sequence how likely an event is.

    Attributes
    ----------
    features: F, inputs at each time step.
    width: d, channels of the residual stream; a multiple of 8.
    context: T, time steps of a sequence.
    expand: inner channels of the block over d.
    head_size, state: P and N, channels of a head and elements of its state for each of them.
    conv: taps of the convolution, 1 to 8.
    loops: K, uses of the refinement whose weights they share.

    Raises ConfigError for what no model or no kernel can be.
    """

    features: int
    width: int
    context: int
    expand: int = 2
    head_size: int = 64
    state: int = 64
    conv: int = 4
    loops: int = 4

    def __post_init__(self) -> None:
        _check_counts(self)
        _check_mixer(self.mixer)
        if self.width % _LOOP_UNIT:
            raise ConfigError(
                f"model: width {self.width} is no multiple of {_LOOP_UNIT}, which the loop's "
                f"products need; choose {_rounded(self.width, _LOOP_UNIT)}"
            )

    @property
    def mixer(self) -> MixerSizes:
        """The shape of its block."""
        return MixerSizes(
            self.width, self.expand * self.width, self.head_size, self.state, self.conv
        )


@dataclass(frozen=True)
class Mamba2LMConfig:
    """Shape of a `mamba2-lm`: a language model of Mamba-2 blocks.

    Attributes
    ----------
    width: d, channels of the residual stream.
    context: T, tokens in a window.
    layers: L, blocks.
    vocabulary: V, 256 for bytes.
    expand, head_size, state, conv: as Mamba2Config has them.

    Raises ConfigError for what no model or no kernel can be.
    """

    width: int
    context: int
    layers: int
    vocabulary: int = 256
    expand: int = 2
    head_size: int = 64
    state: int = 64
    conv: int = 4

    def __post_init__(self) -> None:
        _check_counts(self)
        _check_mixer(self.mixer)

    @property
    def mixer(self) -> MixerSizes:
        """The shape of each of its blocks."""
        return MixerSizes(
            self.width, self.expand * self.width, self.head_size, self.state, self.conv
        )


def _check_counts(config: Mamba2Config | Mamba2LMConfig) -> None:
    for field in fields(config):
        size = getattr(config, field.name)
        if type(size) is not int:
            why = f": {_ONE_DEPTH}" if field.name == "loops" else ""
            raise ConfigError(f"model: {field.name} must be a whole number, got {size!r}{why}")
        if size < 1:
            raise ConfigError(f"model: {field.name} must be at least 1, got {size}")


def _check_mixer(sizes: MixerSizes) -> None:
    """Raise ConfigError for a block that the kernels cannot run."""
    if sizes.inner % sizes.head_size:
        raise ConfigError(
            f"model: heads of {sizes.head_size} channels do not divide expand * width = "
            f"{sizes.inner}; choose a head_size that does, or a width that is a multiple of it"
        )
    if sizes.heads > _MOST_HEADS:
        raise ConfigError(
            f"model: {sizes.heads} heads are more than the {_MOST_HEADS} that a launch takes; "
            f"choose a larger head_size than {sizes.head_size}"
        )
    if sizes.conv > _WIDEST_CONV:
        raise ConfigError(
            f"model: conv must be 1 to {_WIDEST_CONV}, got {sizes.conv}: no kernel has more taps"
        )
    if sizes.head_size * sizes.state > _LARGEST_STATE:
        raise ConfigError(
            f"model: a head's state of {sizes.head_size} x {sizes.state} elements does not fit an "
            "int; choose a smaller head_size or state"
        )


def _rounded(size: int, unit: int) -> str:
    """The multiples of `unit` beside a size, as advice."""
    below, above = size // unit * unit, -(-size // unit) * unit
    return f"{below} or {above}" if below else str(above)


PRESETS = {
    "nano": Preset(
        Mamba2Config(features=8, width=32, context=48, head_size=16, state=16),
        batch=4, steps=200, learning_rate=3e-3,
    ),
    # More steps learn the default series by heart: 500 end at 0.63 nats held out, 200 at 0.43.
    "perception": Preset(
        Mamba2Config(features=32, width=128, context=64),
        batch=32, steps=200, learning_rate=1e-3,
    ),
}  # fmt: skip

# nano's rate was searched: of 200 steps on English and Python the last 20 have a mean loss of 1.94,
# 1.85, 1.83, 1.87 nats for 3e-3, 6e-3, 1.2e-2, 2.4e-2. The larger ones' rates fall with the width.
LM_PRESETS = {
    "nano": Preset(
        Mamba2LMConfig(width=64, context=64, layers=2, head_size=32, state=16),
        batch=8, steps=200, learning_rate=1.2e-2,
    ),
    "tiny": Preset(
        Mamba2LMConfig(width=128, context=128, layers=2), batch=16, steps=500, learning_rate=6e-3
    ),
    "small": Preset(
        Mamba2LMConfig(width=256, context=256, layers=4), batch=16, steps=2000, learning_rate=3e-3
    ),
}  # fmt: skip
