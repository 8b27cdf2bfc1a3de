from __future__ import annotations

import numpy as np
import pytest

from lowgraph.ops import Embedding, embedding
from tests.ops import twins
from tests.ops.compare import (
    ROUNDOFF,
    Array,
    assert_close,
    assert_same_bits,
    in_place,
    normal,
    output,
    wide,
)
from tests.support.rig import Rig

# batch, length, channels, vocabulary
# The last two: a list of some 400 places, which eight threads share; a vocabulary of which almost
# no token occurs.
SIZES = [
    (1, 1, 1, 1), (3, 31, 33, 7), (2, 33, 64, 256), (5, 9, 257, 31), (4, 257, 36, 50),
    (2, 31, 5, 50304),
]  # fmt: skip


def make_tokens(seed: int, batch: int, length: int, vocabulary: int) -> Array:
    """Return tokens with one frequent value, and values that never occur."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, max(1, vocabulary // 2), (batch, length)).astype(np.int32)
    tokens[rng.random((batch, length)) < 0.4] = vocabulary - 1
    return tokens


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("batch", "length", "channels", "vocabulary"), SIZES)
def test_forward(
    rig: Rig, batch: int, length: int, channels: int, vocabulary: int, seed: int
) -> None:
    tokens = make_tokens(seed, batch, length, vocabulary)
    table, positions = normal(1, vocabulary, channels), normal(2, length, channels)
    x = output(rig, batch, length, channels)

    Embedding(rig.library, vocabulary).forward(
        rig.stream, x, rig.put(tokens), rig.put(table), rig.put(positions), batch, length, channels
    )

    assert_same_bits(x.get(), twins.embedding_forward(tokens, table, positions))


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize(("batch", "length", "channels", "vocabulary"), SIZES)
def test_backward(
    rig: Rig, batch: int, length: int, channels: int, vocabulary: int, accumulate: bool
) -> None:
    tokens, dx = make_tokens(0, batch, length, vocabulary), normal(1, batch, length, channels)
    before = normal(2, vocabulary, channels), normal(3, length, channels)
    ops = Embedding(rig.library, vocabulary)
    if accumulate:
        dtoken, dposition = (in_place(rig, array) for array in before)
    else:
        dtoken, dposition = output(rig, vocabulary, channels), output(rig, length, channels)
    places = output(rig, *ops.places_shape(batch, length), dtype=np.int32)
    begin = output(rig, *ops.begin_shape(), dtype=np.int32)

    ops.backward(
        rig.stream, dtoken, dposition, places, begin, rig.put(dx), rig.put(tokens), batch, length,
        channels, accumulate=accumulate,
    )  # fmt: skip

    want = twins.embedding_backward(*wide(dx), tokens, vocabulary)
    for name, got, old, new in zip(
        ("dtoken", "dposition"), (dtoken, dposition), before, want, strict=True
    ):
        # At most 60 values are added one after another, by one thread.
        assert_close(got.get(), new + (old if accumulate else 0), 64 * ROUNDOFF, name)
    np.testing.assert_array_equal(places.get(), np.argsort(tokens.ravel(), kind="stable"))
    counts = np.bincount(tokens.ravel(), minlength=vocabulary)
    np.testing.assert_array_equal(begin.get(), np.concatenate([[0], np.cumsum(counts)]))


@pytest.mark.parametrize(("batch", "length", "channels", "vocabulary"), SIZES)
def test_no_positions(rig: Rig, batch: int, length: int, channels: int, vocabulary: int) -> None:
    tokens, dx = make_tokens(1, batch, length, vocabulary), normal(1, batch, length, channels)
    table, ops = normal(2, vocabulary, channels), Embedding(rig.library, vocabulary)
    x, dtoken = output(rig, batch, length, channels), output(rig, vocabulary, channels)
    places = output(rig, *ops.places_shape(batch, length), dtype=np.int32)
    begin = output(rig, *ops.begin_shape(), dtype=np.int32)
    sizes = batch, length, channels

    ops.forward(rig.stream, x, rig.put(tokens), rig.put(table), None, *sizes)
    ops.backward(rig.stream, dtoken, None, places, begin, rig.put(dx), rig.put(tokens), *sizes)

    assert_same_bits(x.get(), table[tokens])
    want, _ = twins.embedding_backward(*wide(dx), tokens, vocabulary)
    assert_close(dtoken.get(), want, 64 * ROUNDOFF, "dtoken")


def test_backward_repeats_bit_for_bit(rig: Rig) -> None:
    batch, length, channels, vocabulary = 4, 64, 36, 50
    tokens, dx = make_tokens(0, batch, length, vocabulary), normal(1, batch, length, channels)
    inputs = [rig.put(dx), rig.put(tokens)]
    ops = Embedding(rig.library, vocabulary)
    lists = [rig.empty(ops.places_shape(batch, length), np.int32)]
    lists.append(rig.empty(ops.begin_shape(), np.int32))
    runs = []
    for _ in range(3):
        grads = [output(rig, vocabulary, channels), output(rig, length, channels)]
        ops.backward(rig.stream, *grads, *lists, *inputs, batch, length, channels)
        runs.append(np.concatenate([grad.get() for grad in grads]))
    assert_same_bits(runs[0], runs[1])
    assert_same_bits(runs[0], runs[2])


@pytest.mark.parametrize(
    ("sums", "rows", "groups"),
    [(1, 0, 1), (1, 127, 1), (1, 128, 2), (16384, 4096, 32), (2**18, 10**6, 8), (10**7, 8192, 1)],
)
def test_long_lists_are_shared_where_there_is_room(sums: int, rows: int, groups: int) -> None:
    assert embedding._groups(sums, rows) == groups


def test_no_tokens_leave_a_zero_gradient(rig: Rig) -> None:
    ops = Embedding(rig.library, 3)
    nothing = rig.put(np.zeros(0, np.int32))
    none = rig.put(np.zeros(0, np.float32))
    dtoken, dposition = output(rig, 3, 5), output(rig, 4, 5)
    begin = output(rig, *ops.begin_shape(), dtype=np.int32)

    ops.forward(rig.stream, none, nothing, none, none, 0, 4, 5)
    ops.backward(rig.stream, dtoken, dposition, nothing, begin, none, nothing, 0, 4, 5)

    assert not dtoken.get().any()
    assert not dposition.get().any()
