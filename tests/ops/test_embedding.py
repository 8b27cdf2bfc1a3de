from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from lowgraph.ops import Embedding, embedding
from tests.ops import twins
from tests.ops.compare import (
    ROUNDOFF,
    Array,
    Output,
    assert_same_bits,
    in_place,
    normal,
    output,
    wide,
)
from tests.support.process import output_of
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


class Backward:
    """The backward pass over tokens [B,T], with its workspaces poisoned."""

    def __init__(self, rig: Rig, tokens: Array, channels: int, vocabulary: int) -> None:
        self.rig, self.ops = rig, Embedding(rig.library, vocabulary)
        self.sizes = *tokens.shape, channels
        self.tokens = rig.put(tokens)
        self.order = output(rig, *self.ops.order_shape(*tokens.shape), dtype=np.int32)
        self.begin = output(rig, *self.ops.begin_shape(), dtype=np.int32)
        self.partial = output(rig, *self.ops.partial_shape(*self.sizes))

    def __call__(
        self, dtoken: Output, dposition: Output | None, dx: Array, accumulate: bool = False
    ) -> None:
        work = self.order, self.begin, self.partial
        self.ops.backward(
            self.rig.stream, dtoken, dposition, *work, self.rig.put(dx), self.tokens, *self.sizes,
            accumulate=accumulate,
        )  # fmt: skip


def assert_sums(got: Array, want: Array, magnitude: Array, longest: int, what: str) -> None:
    """Each of at most `longest` terms passes so many additions, each within half a unit of its sum.

    Seven in its window, those of every 64th window behind its own, seven between the slots and as
    many between the rows read ahead, one to what was there; magnitude: the sum of the terms' sizes.
    """
    additions = 7 + longest // 64 + 7 + 7 + 1
    off = np.abs(got.astype(np.float64) - want)
    limit = additions * ROUNDOFF * magnitude
    assert (off <= limit).all(), f"{what}: {int((off > limit).sum())} elements, or NaN, are off"


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize(("batch", "length", "channels", "vocabulary"), SIZES)
def test_backward(
    rig: Rig, batch: int, length: int, channels: int, vocabulary: int, accumulate: bool
) -> None:
    tokens, dx = make_tokens(0, batch, length, vocabulary), normal(1, batch, length, channels)
    before = normal(2, vocabulary, channels), normal(3, length, channels)
    make = (lambda a: in_place(rig, a)) if accumulate else (lambda a: output(rig, *a.shape))
    dtoken, dposition = (make(array) for array in before)
    backward = Backward(rig, tokens, channels, vocabulary)

    backward(dtoken, dposition, dx, accumulate)

    want = twins.embedding_backward(*wide(dx), tokens, vocabulary)
    size = twins.embedding_backward(np.abs(dx).astype(np.float64), tokens, vocabulary)
    counts = np.bincount(tokens.ravel(), minlength=vocabulary)
    old = before if accumulate else [np.zeros_like(array) for array in before]
    longest = int(counts.max()), batch
    for name, got, was, new, magnitude, terms in zip(
        ("dtoken", "dposition"), (dtoken, dposition), wide(*old), want, size, longest, strict=True
    ):
        assert_sums(got.get(), was + new, magnitude + np.abs(was), terms, name)
    places = np.argsort(tokens.ravel(), kind="stable")
    np.testing.assert_array_equal(backward.order.get(), [places, tokens.ravel()[places]])
    np.testing.assert_array_equal(backward.begin.get(), np.concatenate([[0], np.cumsum(counts)]))


def every_place(count: int) -> Array:
    return np.zeros(count)


def two_ends(count: int) -> Array:
    """The first token and the last of 300, by turns."""
    return np.arange(count) % 2 * 299


def by_eights(count: int) -> Array:
    """Runs that begin and end with windows, shuffled."""
    return np.random.default_rng(0).permutation(np.arange(count) // 8 % 300)


def like_text(count: int) -> Array:
    """Ranks that fall as 1/rank."""
    share = 1 / np.arange(1.0, 301)
    return np.random.default_rng(1).choice(300, count, p=share / share.sum())


# 4129 places are more than a tile of embedding_order; 513 of one token are 65 windows, of which a
# slot of embedding_finish sums more than it reads ahead; 64 and 72 fill eight windows, and nine.
@pytest.mark.parametrize("count", [1, 8, 31, 64, 72, 257, 513, 4129])
@pytest.mark.parametrize("draw", [every_place, two_ends, by_eights, like_text])
def test_skewed_lists(rig: Rig, draw: Callable[[int], Array], count: int) -> None:
    vocabulary, channels = 300, 5
    tokens = draw(count).astype(np.int32).reshape(1, count)
    dx = normal(1, 1, count, channels)
    dtoken = output(rig, vocabulary, channels)
    backward = Backward(rig, tokens, channels, vocabulary)

    backward(dtoken, None, dx)

    want = np.zeros((vocabulary, channels))
    size = want.copy()
    for into, values in ((want, dx), (size, np.abs(dx))):
        np.add.at(into, tokens[0], values[0].astype(np.float64))
    assert_sums(dtoken.get(), want, size, int(np.bincount(tokens[0]).max()), "dtoken")
    places = np.argsort(tokens[0], kind="stable")
    np.testing.assert_array_equal(backward.order.get(), [places, tokens[0][places]])


@pytest.mark.parametrize(("batch", "length", "channels", "vocabulary"), SIZES)
def test_no_positions(rig: Rig, batch: int, length: int, channels: int, vocabulary: int) -> None:
    tokens, dx = make_tokens(1, batch, length, vocabulary), normal(1, batch, length, channels)
    table, ops = normal(2, vocabulary, channels), Embedding(rig.library, vocabulary)
    x, dtoken = output(rig, batch, length, channels), output(rig, vocabulary, channels)
    sizes = batch, length, channels

    ops.forward(rig.stream, x, rig.put(tokens), rig.put(table), None, *sizes)
    Backward(rig, tokens, channels, vocabulary)(dtoken, None, dx)

    assert_same_bits(x.get(), table[tokens])
    with_positions = [output(rig, vocabulary, channels), output(rig, length, channels)]
    Backward(rig, tokens, channels, vocabulary)(*with_positions, dx)
    assert_same_bits(dtoken.get(), with_positions[0].get())


def test_backward_repeats_bit_for_bit(rig: Rig) -> None:
    batch, length, channels, vocabulary = 4, 257, 36, 50
    tokens, dx = make_tokens(0, batch, length, vocabulary), normal(1, batch, length, channels)
    runs = []
    for _ in range(3):
        grads = [output(rig, vocabulary, channels), output(rig, length, channels)]
        Backward(rig, tokens, channels, vocabulary)(*grads, dx)
        runs.append(np.concatenate([grad.get() for grad in grads]))
    assert_same_bits(runs[0], runs[1])
    assert_same_bits(runs[0], runs[2])


BITS = """
import numpy as np
from lowgraph import Library, PersistentPool, driver, open_device
from lowgraph.memory import download, upload
from lowgraph.ops import Embedding
device = open_device("host")
stream, pool, rng = driver.stream.create(), PersistentPool(device), np.random.default_rng(0)
def put(values):
    piece = pool.take("given", values.shape, values.dtype)
    upload(piece, values, stream)
    return piece
layer, sizes = Embedding(Library(device), 50), (4, 257, 36)
dx = put(rng.standard_normal(sizes, np.float32))
tokens = put((rng.integers(0, 50, sizes[:2]) * rng.integers(0, 2, sizes[:2])).astype(np.int32))
grads = pool.take("dtoken", (50, 36)), pool.take("dposition", (257, 36))
order = pool.take("order", layer.order_shape(4, 257), np.int32)
begin = pool.take("begin", layer.begin_shape(), np.int32)
layer.backward(stream, *grads, order, begin, pool.take("p", layer.partial_shape(*sizes)), dx,
               tokens, *sizes)
print(*(download(grad, stream).tobytes().hex() for grad in grads))
"""


@pytest.mark.host
def test_the_order_of_blocks_and_threads_changes_no_bit() -> None:
    bits = {output_of(BITS, {"LOWGRAPH_HOST_SHUFFLE": seed}) for seed in ("", "1", "2")}
    assert len(bits) == 1


def test_as_many_rows_as_a_block_may_have(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    batch, length, channels, vocabulary = 2, 257, 33, 131
    tokens, dx = make_tokens(0, batch, length, vocabulary), normal(1, batch, length, channels)
    found = []
    for lists in (8, 64):
        monkeypatch.setattr(embedding, "_lists", lambda *given, lists=lists: lists)
        dtoken = output(rig, vocabulary, channels)
        Backward(rig, tokens, channels, vocabulary)(dtoken, None, dx)
        found.append(dtoken.get())
    assert not np.isnan(found[0]).any()
    assert_same_bits(*found)


@pytest.mark.parametrize(
    ("vocabulary", "slabs", "lists"),
    [(1, 1, 8), (256, 2, 8), (2**15 - 1, 1, 8), (2**15, 1, 16), (50304, 6, 64), (10**6, 1, 64)],
)
def test_blocks_have_more_rows_where_they_abound(vocabulary: int, slabs: int, lists: int) -> None:
    assert embedding._lists(vocabulary, slabs) == lists


def test_no_tokens_leave_a_zero_gradient(rig: Rig) -> None:
    none, tokens = rig.put(np.zeros(0, np.float32)), np.zeros((0, 4), np.int32)
    dtoken, dposition = output(rig, 3, 5), output(rig, 4, 5)

    Embedding(rig.library, 3).forward(rig.stream, none, rig.put(tokens), none, none, 0, 4, 5)
    Backward(rig, tokens, 5, 3)(dtoken, dposition, np.zeros((0, 4, 5), np.float32))

    assert not dtoken.get().any()
    assert not dposition.get().any()
