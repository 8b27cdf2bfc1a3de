"""Scenarios of layer normalisation, cross-entropy, embedding and attention."""

from __future__ import annotations

import numpy as np

from lowgraph.ops.shapes import ceil_div
from tests.check.bugs.bench import Array, Bench, Buffer, Check
from tests.check.bugs.registry import close, scenario
from tests.ops import twins
from tests.ops.compare import normal, wide

ROWS, COLUMNS = 33, 37  # three blocks of 16 rows, the last with one
EPSILON = 1e-5


@scenario
def layernorm_forward(bench: Bench, fault: str) -> list[Check]:
    x, weight, bias = normal(0, ROWS, COLUMNS), normal(1, COLUMNS), normal(2, COLUMNS)
    y = bench.empty((ROWS, COLUMNS), name="y")
    mean, rstd = bench.empty(ROWS, name="mean"), bench.empty(ROWS, name="rstd")
    inputs = [bench.put(x, "x"), bench.put(weight, "weight"), bench.put(bias, "bias")]
    kernel = bench.kernel("layernorm.cu", "layernorm_forward")
    outputs = [y, mean, rstd]
    kernel(bench.stream, ceil_div(ROWS, 16), 256, *outputs, *inputs, ROWS, COLUMNS, EPSILON)
    want = twins.layernorm_forward(*wide(x, weight, bias), EPSILON)
    return close(bench, y=(y, want[0]), mean=(mean, want[1]), rstd=(rstd, want[2]))


def _statistics(bench: Bench, x: Array) -> list[Buffer]:
    exact = x.astype(np.float64)
    rstd = 1 / np.sqrt(exact.var(axis=1) + EPSILON)
    return [bench.put(exact.mean(axis=1).astype(np.float32), "mean"),
            bench.put(rstd.astype(np.float32), "rstd")]  # fmt: skip


@scenario
def layernorm_backward(bench: Bench, fault: str) -> list[Check]:
    dy, x, weight = normal(0, ROWS, COLUMNS), normal(1, ROWS, COLUMNS), normal(2, COLUMNS)
    dx, chunks = bench.empty((ROWS, COLUMNS), name="dx"), ceil_div(ROWS, 16)
    partial = bench.empty((chunks, 2 * COLUMNS), name="partial")
    inputs = [bench.put(dy, "dy"), bench.put(x, "x"), bench.put(weight, "weight")]
    kernel, sizes = bench.kernel("layernorm_backward.cu", "layernorm_backward"), (ROWS, COLUMNS)
    inputs += _statistics(bench, x)
    kernel(bench.stream, chunks, 256, dx, 0, partial, *inputs, *sizes, 16, 2 * COLUMNS, 0)
    return close(bench, dx=(dx, twins.layernorm_backward(*wide(dy, x, weight), EPSILON)[0]))


@scenario
def layernorm_parameters(bench: Bench, fault: str) -> list[Check]:
    """Fault: the gradients are added to memory that nobody set to zero."""
    columns = 261
    dy, x, weight = normal(0, ROWS, columns), normal(1, ROWS, columns), np.ones(columns, np.float32)
    chunks, both = ceil_div(ROWS, 16), 2 * columns
    partial, dx = bench.empty((chunks, both), name="partial"), bench.empty((ROWS, columns))
    gradients = bench.empty(both, name="gradients")
    inputs = [bench.put(dy, "dy"), bench.put(x, "x"), bench.put(weight, "weight")]
    inputs += _statistics(bench, x)
    bench.kernel("layernorm_backward.cu", "layernorm_backward")(
        bench.stream, chunks, 256, dx, 0, partial, *inputs, ROWS, columns, 16, both, 0
    )
    places = bench.put(np.arange(both, dtype=np.int32), "places")
    added = int(fault == "added to what is there")
    bench.kernel("layernorm_backward.cu", "layernorm_parameters")(
        bench.stream, ceil_div(both, 32), 512, gradients, partial, places, chunks, both, added
    )
    _, *want = twins.layernorm_backward(*wide(dy, x, weight), EPSILON)
    return close(bench, gradients=(gradients, np.concatenate(want)))


@scenario
def cross_entropy(bench: Bench, fault: str) -> list[Check]:
    """Fault: a target of -1, another library's mark for "ignore", in the first row."""
    logits = normal(0, ROWS, COLUMNS)
    targets = np.random.default_rng(1).integers(0, COLUMNS, ROWS).astype(np.int32)
    given = targets.copy()
    given[0] = -1 if fault == "ignored target" else targets[0]
    loss = bench.empty(ROWS, name="row_loss")
    inputs = [bench.put(logits, "logits"), bench.put(given, "targets")]
    kernel = bench.kernel("cross_entropy.cu", "cross_entropy_forward")
    kernel(bench.stream, ceil_div(ROWS, 8), 128, loss, *inputs, ROWS, COLUMNS)
    return close(bench, row_loss=(loss, twins.cross_entropy_forward(*wide(logits), targets)))


@scenario
def cross_entropy_both(bench: Bench, fault: str) -> list[Check]:
    logits = normal(0, ROWS, COLUMNS)
    targets = np.random.default_rng(1).integers(0, COLUMNS, ROWS).astype(np.int32)
    loss, dlogits = bench.empty(ROWS, name="row_loss"), bench.put(logits, "logits")
    kernel = bench.kernel("cross_entropy.cu", "cross_entropy_forward_backward")
    device_targets = bench.put(targets, "targets")
    grid = ceil_div(ROWS, 8)
    kernel(bench.stream, grid, 128, loss, dlogits, device_targets, ROWS, COLUMNS, 0.25)
    exact = logits.astype(np.float64)
    want = twins.cross_entropy_backward(exact, targets, 0.25)
    losses = twins.cross_entropy_forward(exact, targets)
    return close(bench, row_loss=(loss, losses), dlogits=(dlogits, want))


@scenario
def cross_entropy_wide(bench: Bench, fault: str) -> list[Check]:
    """Rows of 4099 floats begin at each of the four places of a vector of 16 bytes."""
    rows, classes = 5, 4099
    logits = normal(0, rows, classes)
    targets = np.random.default_rng(1).integers(0, classes, rows).astype(np.int32)
    loss, dlogits = bench.empty(rows, name="row_loss"), bench.put(logits, "logits")
    kernel = bench.kernel("cross_entropy_wide.cu", "cross_entropy_wide_forward_backward")
    room, given = classes // 4, bench.put(targets, "targets")
    sizes = classes, room, 0.25
    kernel(bench.stream, rows, 512, loss, dlogits, given, *sizes, shared=16 * room)
    exact = logits.astype(np.float64)
    want = twins.cross_entropy_backward(exact, targets, 0.25)
    losses = twins.cross_entropy_forward(exact, targets)
    return close(bench, row_loss=(loss, losses), dlogits=(dlogits, want))


def _mean(bench: Bench, rows: int, fault: str = "") -> list[Check]:
    losses, loss = normal(0, rows, mean=1.0), bench.empty(1, name="loss")
    answer = np.zeros(1, np.float32)
    target = answer.ctypes.data if fault == "host scalar" else loss.address
    kernel, data = bench.kernel("cross_entropy.cu", "mean_loss"), bench.put(losses, "row_loss")
    kernel(bench.stream, 1, 512, target, data, rows)
    bench.sync()
    got = answer if fault == "host scalar" else bench.get(loss)
    return [Check("loss", got, losses.astype(np.float64).mean(keepdims=True), 1e-6)]


@scenario
def mean_loss(bench: Bench, fault: str) -> list[Check]:
    """Fault: the result is to go into a scalar of NumPy's."""
    return _mean(bench, 1025, fault)


@scenario
def mean_loss_few(bench: Bench, fault: str) -> list[Check]:
    """Fewer rows than threads."""
    return _mean(bench, 33)


BATCH, LENGTH, WIDTH, VOCABULARY = 2, 33, 13, 35


@scenario
def embedding(bench: Bench, fault: str) -> list[Check]:
    """Fault: the last token is as large as the vocabulary."""
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, (BATCH, LENGTH)).astype(np.int32)
    given = tokens.copy()
    given[-1, -1] = VOCABULARY if fault == "token past the end" else tokens[-1, -1]
    table, position = normal(0, VOCABULARY, WIDTH), normal(1, LENGTH, WIDTH)
    x = bench.empty((BATCH, LENGTH, WIDTH), name="x")
    inputs = [bench.put(given, "tokens"), bench.put(table, "table"), bench.put(position, "pos")]
    kernel = bench.kernel("embedding.cu", "embedding_forward")
    grid = (ceil_div(BATCH * LENGTH, 4), 1)
    kernel(bench.stream, grid, 128, x, *inputs, BATCH, LENGTH, WIDTH)
    return close(bench, x=(x, twins.embedding_forward(tokens, *wide(table, position))))


@scenario
def embedding_backward(bench: Bench, fault: str) -> list[Check]:
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, (BATCH, LENGTH)).astype(np.int32)
    dx = normal(1, BATCH, LENGTH, WIDTH)
    dtoken, dposition = bench.empty((VOCABULARY, WIDTH)), bench.empty((LENGTH, WIDTH))
    count, device_tokens = BATCH * LENGTH, bench.put(tokens, "tokens")
    order, begin = bench.empty((2, count), np.int32), bench.empty(VOCABULARY + 1, np.int32)
    partial = bench.empty((count // 8 + 1, 2, WIDTH), name="partial")
    stream, read = bench.stream, (bench.put(dx, "dx"), order)
    bench.kernel("embedding.cu", "embedding_order")(
        stream, ceil_div(count, 32), 256, order, device_tokens, count
    )
    bench.kernel("embedding.cu", "embedding_windows")(
        stream, (ceil_div(count // 8 + 1, 8) + LENGTH, 1), 256, dtoken, dposition, partial, begin,
        *read, count, VOCABULARY, BATCH, LENGTH, WIDTH, 0,
    )  # fmt: skip
    bench.kernel("embedding.cu", "embedding_finish")(
        stream, (ceil_div(VOCABULARY, 8), 1), 256, dtoken, partial, begin, VOCABULARY, WIDTH, 8, 0
    )
    want = twins.embedding_backward(dx.astype(np.float64), tokens, VOCABULARY)
    return close(bench, dtoken=(dtoken, want[0]), dposition=(dposition, want[1]))


HEADS, HEAD = 2, 16


def _attention(bench: Bench, length: int) -> list[Check]:
    qkv = normal(0, 1, length, 3 * HEADS * HEAD)
    out, lse = bench.empty((1, length, HEADS * HEAD), name="out"), bench.empty((1, HEADS, length))
    kernel = bench.kernel("attention.cu", "attention_forward", HEAD_SIZE=HEAD)
    grid = (ceil_div(length, 64), HEADS, 1)
    kernel(bench.stream, grid, 64, out, lse, bench.put(qkv, "qkv"), length, HEAD**-0.5)
    want, want_lse = twins.attention_forward(qkv.astype(np.float64), HEADS)
    return close(bench, out=(out, want), lse=(lse, want_lse))


@scenario
def attention(bench: Bench, fault: str) -> list[Check]:
    return _attention(bench, 70)


@scenario
def attention_short(bench: Bench, fault: str) -> list[Check]:
    """A sequence that does not fill a tile."""
    return _attention(bench, 29)


@scenario
def attention_backward(bench: Bench, fault: str) -> list[Check]:
    length, channels = 70, HEADS * HEAD
    qkv, dout = normal(0, 1, length, 3 * channels), normal(1, 1, length, channels)
    exact = qkv.astype(np.float64)
    out, lse = (part.astype(np.float32) for part in twins.attention_forward(exact, HEADS))
    dqkv, delta = bench.empty(qkv.shape, name="dqkv"), bench.empty(lse.shape, name="delta")
    device_qkv, device_dout = bench.put(qkv, "qkv"), bench.put(dout, "dout")
    device_out, device_lse = bench.put(out, "out"), bench.put(lse, "lse")
    grid, scale = (ceil_div(length, 64), HEADS, 1), HEAD**-0.5
    query = bench.kernel("attention.cu", "attention_backward_query", HEAD_SIZE=HEAD)
    key = bench.kernel("attention.cu", "attention_backward_key", HEAD_SIZE=HEAD)
    inputs = [device_dout, device_qkv, device_out, device_lse]
    query(bench.stream, grid, 64, dqkv, delta, *inputs, length, scale)
    inputs.remove(device_out)
    key(bench.stream, grid, 64, dqkv, delta, *inputs, length, scale)
    return close(
        bench, dqkv=(dqkv, twins.attention_backward(dout.astype(np.float64), exact, HEADS))
    )
