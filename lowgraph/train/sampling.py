"""Text from a trained model, one byte at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

__all__ = ["generate"]

Row = npt.NDArray[np.float32]
_PROMPT = b"\n"


def generate(
    next_logits: Callable[[npt.NDArray[np.int32], int], Row],
    context: int,
    count: int,
    temperature: float,
    seed: int,
) -> bytes:
    """Draw `count` bytes after a newline.

    next_logits(tokens, position): the logits [256] that follow `tokens[position]` in a window
        tokens [context], int32, of which only 0 .. position matter (the model is causal).
    temperature: divides the logits; lower is nearer to always taking the likeliest byte.
    seed: of the draws (NumPy PCG64).
    """
    generator = np.random.default_rng(seed)
    text = bytearray(_PROMPT)
    window = np.zeros(context, dtype=np.int32)
    for _ in range(count):
        known = np.frombuffer(bytes(text[-context:]), dtype=np.uint8)
        window[: len(known)] = known
        logits = next_logits(window, len(known) - 1)
        text.append(_draw(logits, temperature, generator))
    return bytes(text[len(_PROMPT) :])


def _draw(logits: Row, temperature: float, generator: np.random.Generator) -> int:
    # The difference first: a tiny temperature makes it infinite, whose exponential is 0, not NaN.
    above = logits.astype(np.float64) - logits.max()
    with np.errstate(over="ignore"):
        chances = np.exp(above / temperature)
    return int(generator.choice(len(chances), p=chances / chances.sum()))
