"""Kernels of a charlm step beside its products: right first, then how long.

    python benchmarks/charlm_kernels.py [--only PRESET ...]

Microseconds of one call inside a graph that repeats it (median, least and most of the replays) at
the sizes of the presets tiny and small in bfloat16, and of the embedding's gradient at GPT-2's.
Tokens are drawn as bytes of text fall: one in six is a space. Nothing is timed before it has been
compared with float64.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
from measure import time_parts
from mma import ROUND, Array, Bench, Row

from lowgraph import ops
from lowgraph.memory import Slice, upload
from lowgraph.ops.control import control_bytes, new_control
from lowgraph.ops.grad_norm import new_stats, stats_bytes
from lowgraph.precision import Precision
from lowgraph.train.ring import MappedRing

# preset: batch, length, channels, vocabulary, layers
PRESETS = {
    "tiny": (16, 128, 128, 256, 2),
    "small": (16, 256, 256, 256, 4),
    "gpt2": (8, 1024, 768, 50304, 12),
}
FLOAT = 2.0**-24
Part = tuple[str, Callable[[], None], dict[str, float]]


class Given:
    """Tensors of one preset."""

    def __init__(self, bench: Bench, name: str) -> None:
        self.bench, self.stream = bench, bench.stream
        self.batch, self.length, self.width, self.vocabulary, self.layers = PRESETS[name]
        self.rows = self.batch * self.length
        self.random = np.random.default_rng(0)
        self.tokens_values = self._text()
        self.tokens = self.put(self.tokens_values)

    def put(self, values: Array) -> Slice:
        """The array on the device."""
        piece = self.bench.pool.take("given", values.shape, values.dtype)
        upload(piece, np.ascontiguousarray(values), self.stream)
        return piece

    def wide(self, *shape: int) -> tuple[Slice, Array]:
        """Normal float32 numbers on the device, and in float64."""
        values = self.random.standard_normal(shape, np.float32)
        return self.put(values), values.astype(np.float64)

    def _text(self) -> Array:
        """Ranks that fall as 1/rank, and the first of them one in six, dealt over all tokens."""
        share = 1 / np.arange(1.0, self.vocabulary + 1) ** 1.1
        share[0] = (share.sum() - share[0]) / 5
        ranks = self.random.choice(self.vocabulary, self.rows, p=share / share.sum())
        return self.random.permutation(self.vocabulary)[ranks].astype(np.int32)


def off(got: Array, want: Array, limit: float, what: str) -> float:
    """Largest difference over the largest of `want`; at most `limit`."""
    worst = float(np.abs(got - want).max() / max(np.abs(want).max(), 1e-30))
    if not worst <= limit:
        raise SystemExit(f"{what} is wrong: off by {worst:.1e} of the largest, at most {limit:.1e}")
    return float(f"{worst:.1e}")


def normed(x: Array, weight: Array, bias: Array) -> tuple[Array, Array, Array]:
    """A layer norm's output, means and 1/deviations."""
    mean, rstd = x.mean(axis=1), 1 / np.sqrt(x.var(axis=1) + 1e-5)
    return (x - mean[:, None]) * rstd[:, None] * weight + bias, mean, rstd


def norms(given: Given) -> Iterator[Part]:
    """Layer norms, forward and backward, and the parameters of all of them."""
    bench, s, rows, width = given.bench, given.stream, given.rows, given.width
    layer = ops.LayerNorm(bench.library, precision=Precision.BF16)
    (weight, w), (bias, b), (add, a) = (given.wide(width) for _ in range(3))
    (residual, res), (branch, br) = given.wide(rows, width), given.wide(rows, width)
    (table, t), (place, p) = given.wide(given.vocabulary, width), given.wide(given.length, width)
    x, mean, rstd = bench.zeros(rows, width), bench.zeros(rows), bench.zeros(rows)
    y = bench.zeros(rows, width, dtype=np.uint16)
    outputs, affine = (x, y, mean, rstd), (weight, bias)

    def embed() -> None:
        read = given.tokens, table, place, *affine
        layer.embedding_forward(s, *outputs, *read, rows, given.length, width)

    def join() -> None:
        layer.residual_forward(s, *outputs, residual, branch, add, *affine, rows, width)

    embed()
    want = normed(t[given.tokens_values] + np.tile(p, (given.batch, 1)), w, b)[0]
    yield "embedding + norm", embed, {"y": off(bench.read(y), want, ROUND, "y")}
    join()
    exact = res + (br + a)
    want, want_mean, want_rstd = normed(exact, w, b)
    yield "residual + norm", join, {"y": off(bench.read(y), want, ROUND, "y")}

    narrow_dy, dy = bench.narrow(rows, width)
    dx, narrow = bench.zeros(rows, width), bench.zeros(rows, width, dtype=np.uint16)
    count = 2 * given.layers + 1
    columns, chunks = 2 * width * count, layer.chunks(rows).chunks
    sums, gradients = bench.zeros(chunks, columns), bench.zeros(columns)
    places = given.put(np.arange(columns, dtype=np.int32))

    def back(added: bool = True) -> None:
        layer.backward(s, dx, sums, narrow_dy, x, weight, mean, rstd, rows, width,
                       stride=columns, add_dx=added, narrow=narrow)  # fmt: skip

    def parameters() -> None:
        layer.parameters(s, gradients, sums, places, rows, columns)

    back(added=False)
    parameters()
    hat = (exact - want_mean[:, None]) * want_rstd[:, None]
    g = dy.astype(np.float64) * w
    want = g - g.mean(axis=1, keepdims=True) - hat * (g * hat).mean(axis=1, keepdims=True)
    found = bench.read(gradients)[: 2 * width]
    both = np.concatenate([(dy * hat).sum(axis=0), dy.sum(axis=0, dtype=np.float64)])
    worst = {"dx": off(bench.read(dx), want * want_rstd[:, None], 256 * FLOAT, "dx"),
             "parameters": off(found, both, 512 * FLOAT, "parameters")}  # fmt: skip
    yield "norm backward", back, worst
    yield f"parameters of {count} norms", parameters, {}


def loss(given: Given) -> Iterator[Part]:
    """Cross-entropy with its gradient, and the mean."""
    bench, s, rows, classes = given.bench, given.stream, given.rows, given.vocabulary
    layer = ops.CrossEntropy(bench.library, Precision.BF16)
    logits, values = bench.narrow(rows, classes)
    row_loss, mean = bench.zeros(rows), bench.zeros(1)

    def both() -> None:
        layer.forward_backward(s, row_loss, logits, given.tokens, rows, classes, 1 / rows)

    def average() -> None:
        layer.mean(s, mean, row_loss, rows)

    both()
    average()
    exact, row = values.astype(np.float64), np.arange(rows)
    total = np.log(np.exp(exact).sum(axis=1))
    share = np.exp(exact - total[:, None])
    share[row, given.tokens_values] -= 1
    want = (total - exact[row, given.tokens_values]).mean()
    worst = {"dlogits": off(bench.read(logits), share / rows, ROUND, "dlogits"),
             "loss": off(bench.read(mean), want[None], 64 * FLOAT, "loss")}  # fmt: skip
    yield "cross-entropy and gradient", both, worst
    yield "mean loss", average, {}


def embedding(given: Given) -> Iterator[Part]:
    """The gradients of both tables: the order of the places, which may run beside, and the sums."""
    bench, s = given.bench, given.stream
    layer = ops.Embedding(bench.library, given.vocabulary)
    sizes = given.batch, given.length, given.width
    dx, values = given.wide(given.rows, given.width)
    dtoken, dplace = bench.zeros(given.vocabulary, given.width), bench.zeros(*sizes[1:])
    order = bench.zeros(*layer.order_shape(*sizes[:2]), dtype=np.int32)
    begin = bench.zeros(*layer.begin_shape(), dtype=np.int32)
    partial = bench.zeros(*layer.partial_shape(*sizes))

    def sort() -> None:
        layer.sort_places(s, order, given.tokens, given.rows)

    def back() -> None:
        layer.sum_places(s, dtoken, dplace, order, begin, partial, dx, *sizes)

    sort()
    back()
    want = np.zeros((given.vocabulary, given.width))
    np.add.at(want, given.tokens_values, values)
    worst = {"tokens": off(bench.read(dtoken), want, 256 * FLOAT, "dtoken"),
             "places": off(bench.read(dplace), values.reshape(sizes).sum(axis=0), 64 * FLOAT,
                           "dplace")}  # fmt: skip
    longest = int(np.bincount(given.tokens_values).max())
    yield "order of the places", sort, {}
    yield f"embedding backward, longest list {longest}", back, worst


def bookkeeping(given: Given) -> Iterator[Part]:
    """What a step does besides, without a check here: control block, batch, ring, norm."""
    bench, s = given.bench, given.stream
    control = given.put(control_bytes(new_control(total_steps=10**6, lr_max=1e-3)))
    corpus = given.put(given.random.integers(0, 256, 10**7).astype(np.uint8))
    targets, value = bench.zeros(given.rows, dtype=np.int32), bench.zeros(1)
    clock, batch, ring = (make(bench.library) for make in (ops.Control, ops.BatchGather,
                                                           ops.LossRing))  # fmt: skip
    stats = given.put(stats_bytes(new_stats()))
    mapped = MappedRing(bench.pool, 64)
    drawn = bench.zeros(given.rows, dtype=np.int32)
    sizes = 10**7, given.batch, given.length
    yield "control block", lambda: clock.advance(s, control), {}
    yield "batch", lambda: batch.random(s, drawn, targets, corpus, control, *sizes), {}
    yield "loss ring", lambda: ring.write(s, mapped.device_address, value, stats, control, 64), {}


PARTS = {
    "tiny": (bookkeeping, norms, loss, embedding),
    "small": (norms, loss, embedding),
    "gpt2": (embedding,),
}


def rows_of(bench: Bench, name: str) -> Iterator[Row]:
    """Each part's calls, checked and timed."""
    given = Given(bench, name)
    for part in PARTS[name]:
        for what, act, worst in part(given):
            yield {"case": name, "what": what, "off": worst, "us": bench.time(act)}


def main() -> int:
    """Run the command line."""
    return time_parts(__doc__ or "", PRESETS, Bench, rows_of)


if __name__ == "__main__":
    sys.exit(main())
