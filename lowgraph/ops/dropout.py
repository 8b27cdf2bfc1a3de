"""Dropout whose mask backward makes again, from random state on the device (dropout.cu)."""

from __future__ import annotations

from lowgraph.errors import ConfigError
from lowgraph.kernels import Library
from lowgraph.ops.random_state import Draws
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, quads

__all__ = ["Dropout", "threshold_of"]


class Dropout:
    """y[i] = x[i] / (1 - rate) with probability 1 - rate, else 0.

    The mask is never stored: `saved`, 16 bytes (uint64 [2]), is what backward needs to draw it
    again. `lowgraph.ops.philox.dropout_words` gives the same words.
    """

    def __init__(self, library: Library) -> None:
        """Take the kernels from `library`."""
        self._forward = library.kernel("dropout.cu", "dropout_forward")
        self._backward = library.kernel("dropout.cu", "dropout_backward")

    def forward(
        self,
        stream: Stream,
        y: Pointer,
        saved: Pointer,
        x: Pointer,
        draws: Draws,
        rate: float,
        count: int,
    ) -> None:
        """Overwrite y, `count` elements, and saved. One launch; takes ceil(count / 4) counters.

        y may be x. rate: in [0, 1), and the same in every step, as it is passed by value.
        """
        threshold, scale = threshold_of(rate)
        if count:
            first = draws.take(quads(count))
            self._forward(
                stream, ceil_div(count, 512), 128,
                y, saved, x, draws.address, first, threshold, scale, count,
            )  # fmt: skip

    def backward(
        self, stream: Stream, dx: Pointer, dy: Pointer, saved: Pointer, rate: float, count: int
    ) -> None:
        """Overwrite dx, `count` elements, with dy under the mask of `saved`'s forward. One launch.

        dx may be dy. rate: forward's.
        """
        threshold, scale = threshold_of(rate)
        if count:
            grid = ceil_div(count, 512)
            self._backward(stream, grid, 128, dx, dy, saved, threshold, scale, count)


def threshold_of(rate: float) -> tuple[int, float]:
    """Return (least 32-bit word that keeps an element, 1 / (1 - rate)). Raises ConfigError."""
    if not 0 <= rate < 1:
        raise ConfigError(f"dropout: the rate must be in [0, 1), got {rate}")
    return min(round(rate * 2**32), 2**32 - 1), 1.0 / (1.0 - rate)
