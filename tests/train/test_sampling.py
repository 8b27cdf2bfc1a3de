"""Sampling: seeded, from the distribution it is given, with a window that slides."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from lowgraph.memory import download
from lowgraph.models import CharLMConfig
from lowgraph.train.inference import Inference
from lowgraph.train.sampling import generate
from tests.models.bench import Bench
from tests.models.cases import perturbed
from tests.support.rig import Rig

Row = npt.NDArray[np.float32]


def _successor(tokens: npt.NDArray[np.int32], position: int) -> Row:
    """Nearly all chance on the byte after the last one."""
    logits = np.zeros(256, np.float32)
    logits[(tokens[position] + 1) % 256] = 50.0
    return logits


def test_it_follows_the_logits_past_the_context() -> None:
    text = generate(_successor, context=5, count=20, temperature=1.0, seed=0)
    assert text == bytes(range(11, 31))


def test_only_known_places_are_asked_for() -> None:
    asked = []

    def note(tokens: npt.NDArray[np.int32], position: int) -> Row:
        asked.append((position, tokens[: position + 1].tolist()))
        return _successor(tokens, position)

    generate(note, context=3, count=4, temperature=1.0, seed=0)
    assert asked == [(0, [10]), (1, [10, 11]), (2, [10, 11, 12]), (2, [11, 12, 13])]


def test_a_seed_gives_the_same_text_and_another_seed_another() -> None:
    def flat(tokens: npt.NDArray[np.int32], position: int) -> Row:
        return np.zeros(256, np.float32)

    def draw(seed: int) -> bytes:
        return generate(flat, context=4, count=50, temperature=1.0, seed=seed)

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("temperature", [1e-3, 1e-300, 5e-324])
def test_a_low_temperature_takes_the_likeliest(temperature: float) -> None:
    def nearly_even(tokens: npt.NDArray[np.int32], position: int) -> Row:
        logits = np.zeros(256, np.float32)
        logits[65] = 0.1
        return logits

    assert generate(nearly_even, context=4, count=9, temperature=temperature, seed=0) == b"A" * 9


@pytest.mark.both
def test_of_a_larger_vocabulary_only_the_bytes_are_sampled(rig: Rig) -> None:
    """The tokens behind the 256 bytes stand for no byte, however likely the model calls them."""
    config = CharLMConfig(context=5, width=8, heads=2, layers=1, vocabulary=300)
    bench = Bench(rig, config, perturbed(config, 1))
    try:
        inference = Inference(bench.model, bench.pool, rig.stream)
        tokens = np.arange(5, dtype=np.int32)
        found = inference.next_logits(tokens, 3)
        with bench.pool.eager_pass("whole"):
            trace = bench.model.forward(rig.stream, bench.put("tokens", tokens[None]))
            whole = download(trace.logits, rig.stream)
        np.testing.assert_array_equal(found, whole[3, :256])
        assert len(generate(inference.next_logits, 5, 40, 1.0, 0)) == 40
    finally:
        bench.close()
