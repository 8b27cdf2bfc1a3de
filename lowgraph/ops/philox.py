"""The kernels' counter-based random generator in NumPy, bit for bit (kernels_cu/common/philox.cuh).

Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["USE_BATCH", "USE_DROPOUT", "batch_starts", "dropout_words", "philox", "steps_starts"]

USE_BATCH = 0
"""The counter's last word for `batch_gather`'s draws."""

USE_DROPOUT = 1
"""The counter's last word for `dropout`'s draws."""

_MASK = np.uint64(0xFFFFFFFF)
_LOW = np.uint64(32)

Words = np.ndarray[Any, np.dtype[np.uint64]]


def philox(counter: Words, seed: int) -> Words:
    """Return the four output words for counters [...,4] of 32-bit words, key = seed (64 bit).

    Words are held as uint64 values below 2**32.
    """
    c0, c1, c2, c3 = np.moveaxis(np.asarray(counter, np.uint64), -1, 0)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1 = (b >> _LOW) ^ c1 ^ np.uint64(k0), b & _MASK
        c2, c3 = (a >> _LOW) ^ c3 ^ np.uint64(k1), a & _MASK
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=-1)


def batch_starts(seed: int, step: int, batch: int, length: int, corpus_bytes: int) -> Words:
    """Return where the `batch` windows of a step begin in the corpus, as `batch_gather` draws."""
    return steps_starts(seed, range(step, step + 1), batch, length, corpus_bytes)[0]


def steps_starts(seed: int, steps: range, batch: int, length: int, corpus_bytes: int) -> Words:
    """Return the same of several steps, [steps,batch]: one draw costs as much as hundreds."""
    numbers = np.arange(steps.start, steps.stop, dtype=np.uint64)[:, None]
    counter = np.zeros((len(steps), batch, 4), np.uint64)
    counter[..., 0], counter[..., 1] = numbers & _MASK, numbers >> _LOW
    counter[..., 2], counter[..., 3] = np.arange(batch), USE_BATCH
    words = philox(counter, seed)
    return (words[..., 1] << _LOW | words[..., 0]) % np.uint64(corpus_bytes - length)


def dropout_words(seed: int, counter: int, count: int) -> Words:
    """Return the `count` words that decide over a dropout's elements, in order.

    counter: of the first four elements; each four take the next one.
    """
    quads = -(-count // 4)
    numbers = np.uint64(counter) + np.arange(quads, dtype=np.uint64)
    counters = np.zeros((quads, 4), np.uint64)
    counters[:, 0], counters[:, 1] = numbers & _MASK, numbers >> _LOW
    counters[:, 3] = USE_DROPOUT
    return philox(counters, seed).reshape(-1)[:count]
