from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops import BatchGather
from lowgraph.ops.control import control_bytes, new_control
from lowgraph.ops.philox import USE_BATCH, batch_starts, philox
from tests.ops import twins
from tests.ops.compare import Array, output
from tests.support.rig import Rig

SEEDS = [0, 1, 2**64 - 1]

# (counter, key, output): the published known answers of Philox4x32-10 (Random123, kat_vectors).
KNOWN_ANSWERS = [
    (
        "00000000 00000000 00000000 00000000",
        "00000000 00000000",
        "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    ),
    (
        "ffffffff ffffffff ffffffff ffffffff",
        "ffffffff ffffffff",
        "408f276d 41c83b0e a20bc7c6 6d5451fd",
    ),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


def words(text: str) -> tuple[int, ...]:
    return tuple(int(word, 16) for word in text.split())


def control_at(rig: Rig, seed: int, step: int) -> Any:
    return rig.put(control_bytes(new_control(total_steps=10, lr_max=1.0, seed=seed, step=step)))


def corpus_of(size: int) -> Array:
    return np.random.default_rng(3).integers(0, 256, size).astype(np.uint8)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_philox_known_answers(counter: str, key: str, answer: str) -> None:
    low, high = words(key)
    drawn = philox(np.array(words(counter), np.uint64), high << 32 | low)
    assert tuple(int(word) for word in drawn) == words(answer)
    assert twins.philox(words(counter), (low, high)) == words(answer)  # type: ignore[arg-type]


@pytest.mark.parametrize("edge_seed", SEEDS)
@pytest.mark.parametrize(("batch", "length", "size"), [(1, 1, 2), (3, 31, 33), (5, 257, 10_000)])
def test_random_windows(rig: Rig, batch: int, length: int, size: int, edge_seed: int) -> None:
    corpus, step, ahead = corpus_of(size), 2**32 + 6, 3 if batch == 3 else 0
    tokens = output(rig, batch, length, dtype=np.int32)
    targets = output(rig, batch, length, dtype=np.int32)

    BatchGather(rig.library).random(
        rig.stream,
        tokens,
        targets,
        rig.put(corpus),
        control_at(rig, edge_seed, step - ahead),
        size,
        batch,
        length,
        ahead=ahead,
    )

    key = (edge_seed & 0xFFFFFFFF, edge_seed >> 32)
    for b in range(batch):
        draw = twins.philox((step & 0xFFFFFFFF, step >> 32, b, USE_BATCH), key)
        start = (draw[1] << 32 | draw[0]) % (size - length)
        assert start == batch_starts(edge_seed, step, batch, length, size)[b]
        np.testing.assert_array_equal(tokens.get()[b], corpus[start : start + length])
        np.testing.assert_array_equal(targets.get()[b], corpus[start + 1 : start + length + 1])


def test_neighbouring_windows(rig: Rig) -> None:
    corpus = corpus_of(200)
    tokens, targets = output(rig, 3, 33, dtype=np.int32), output(rig, 3, 33, dtype=np.int32)

    places, cursor = rig.put(np.array([7, 100], np.int64)), rig.put(np.array([1], np.int64))
    BatchGather(rig.library).windows(
        rig.stream, tokens, targets, rig.put(corpus), places, cursor, 3, 33
    )

    np.testing.assert_array_equal(tokens.get().ravel(), corpus[100:199])
    np.testing.assert_array_equal(targets.get().ravel(), corpus[101:200])


def test_a_corpus_too_short_is_refused(rig: Rig) -> None:
    ops = BatchGather(rig.library)
    with pytest.raises(ConfigError, match="need 65 bytes; the corpus has 64"):
        ops.random(rig.stream, 0, 0, 0, 0, 64, 1, 64)


def starts(seed: int, steps: int, places: int) -> Array:
    """Return window starts in [0, places) as [steps, 16]."""
    return np.stack([batch_starts(seed, step, 16, 1, places + 1) for step in range(1, steps + 1)])


@pytest.mark.parametrize("edge_seed", SEEDS)
def test_starts_are_uniform(edge_seed: int) -> None:
    """Chi-square over 64 equal bins: within 5 standard deviations (a fixed seed: no flakes)."""
    drawn = starts(edge_seed, 2000, 1_000_000).ravel()
    counts = np.bincount((drawn // 15_625).astype(np.int64), minlength=64)
    expected = drawn.size / 64
    chi2 = float(((counts - expected) ** 2 / expected).sum())
    assert counts.size == 64
    assert abs(chi2 - 63) < 5 * (2 * 63) ** 0.5


@pytest.mark.parametrize("edge_seed", SEEDS)
def test_starts_are_uncorrelated(edge_seed: int) -> None:
    """Between neighbouring rows, steps and seeds: correlation within 5 / sqrt(n)."""
    here, there = (
        starts(s, 2000, 1_000_000).astype(np.float64) for s in (edge_seed, (edge_seed + 1) % 2**64)
    )
    pairs = {
        "rows": (here[:, :-1], here[:, 1:]),
        "steps": (here[:-1], here[1:]),
        "seeds": (here, there),
    }
    for name, (a, b) in pairs.items():
        correlation = np.corrcoef(a.ravel(), b.ravel())[0, 1]
        assert abs(correlation) < 5 / a.size**0.5, name


def test_starts_reach_both_ends_and_repeat_as_often_as_chance_has_it() -> None:
    drawn = starts(0, 500, 100).ravel()
    assert (drawn.min(), drawn.max()) == (0, 99)
    pairs = starts(5, 1000, 10_000)
    repeats = sum(16 - len(set(row.tolist())) for row in pairs)
    expected = 1000 * 16 * 15 / 2 / 10_000  # the birthday count
    assert abs(repeats - expected) < 5 * expected**0.5
