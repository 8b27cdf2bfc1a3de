"""Scenarios of small linear layers in TF32, of norms with what makes their input, and others."""

from __future__ import annotations

import numpy as np

from lowgraph.ops import AdamW, LayerNorm, LinearTf32
from lowgraph.ops.shapes import ceil_div, quads
from lowgraph.precision import bfloat16_bits, bfloat16_values
from tests.check.bugs.bench import Array, Bench, Buffer, Check
from tests.check.bugs.registry import close, scenario
from tests.check.bugs.sources import library
from tests.ops import twins
from tests.ops.compare import normal, wide
from tests.ops.rounding import to_bfloat16

ROWS, COLUMNS, EPSILON = 33, 37, 1e-5  # three blocks of 16 rows, the last with one
M, K, N = 21, 40, 19  # two blocks each way, the last of both not whole


def _exact(seed: int, *shape: int) -> Array:
    """Drawn numbers that TF32 has: their products are not rounded."""
    return bfloat16_values(bfloat16_bits(normal(seed, *shape))).astype(np.float32)


def _linear_tf32_forward(bench: Bench, relu: bool) -> list[Check]:
    x, weight, bias = _exact(0, M, K), _exact(1, N, K), normal(2, N)
    layer, y = LinearTf32(library(bench), M, K, N), bench.empty((M, N), name="y")
    launch = layer.forward_relu if relu else layer.forward
    launch(bench.stream, y, bench.put(x, "x"), bench.put(weight, "weight"), bench.put(bias, "bias"))
    left, right, add = wide(x, weight, bias)
    z = left @ right.T + add
    return close(bench, y=(y, np.maximum(z, 0) if relu else z))


@scenario
def linear_tf32(bench: Bench, fault: str) -> list[Check]:
    return _linear_tf32_forward(bench, relu=False)


@scenario
def linear_tf32_relu(bench: Bench, fault: str) -> list[Check]:
    return _linear_tf32_forward(bench, relu=True)


def _linear_tf32_backward(bench: Bench, relu: bool) -> list[Check]:
    dy, x, weight, y = _exact(0, M, N), _exact(1, M, K), _exact(2, N, K), normal(3, M, N)
    y = np.maximum(y, 0)
    dx, dweight = bench.empty((M, K), name="dx"), bench.empty((N, K), name="dweight")
    layer, dbias = LinearTf32(library(bench), M, K, N), bench.empty(N, name="dbias")
    given = [bench.put(array) for array in (dy, x, weight)]
    if relu:
        layer.backward_relu(bench.stream, dx, dweight, dbias, *given, bench.put(y, "y"))
    else:
        layer.backward(bench.stream, dx, dweight, dbias, *given)
    g, left, right = wide(np.where(y > 0, dy, 0) if relu else dy, x, weight)
    return close(bench, dx=(dx, g @ right), dweight=(dweight, g.T @ left),
                 dbias=(dbias, g.sum(axis=0)))  # fmt: skip


@scenario
def linear_tf32_backward(bench: Bench, fault: str) -> list[Check]:
    return _linear_tf32_backward(bench, relu=False)


@scenario
def linear_tf32_backward_relu(bench: Bench, fault: str) -> list[Check]:
    return _linear_tf32_backward(bench, relu=True)


def _norm_outputs(bench: Bench) -> list[Buffer]:
    matrices = [bench.empty((ROWS, COLUMNS), name=name) for name in ("x", "y")]
    return [*matrices, *(bench.empty(ROWS, name=name) for name in ("mean", "rstd"))]


def _norm_checks(bench: Bench, outputs: list[Buffer], x: Array, *more: Array) -> list[Check]:
    want = (x, *twins.layernorm_forward(x, *wide(*more), EPSILON))
    named = {out.name: (out, array) for out, array in zip(outputs, want, strict=True)}
    return close(bench, **named)


@scenario
def layernorm_residual(bench: Bench, fault: str) -> list[Check]:
    residual, branch, branch_bias = (
        normal(0, ROWS, COLUMNS),
        normal(1, ROWS, COLUMNS),
        normal(2, COLUMNS),
    )
    weight, bias = normal(3, COLUMNS), normal(4, COLUMNS)
    outputs = _norm_outputs(bench)
    inputs = [bench.put(a) for a in (residual, branch, branch_bias, weight, bias)]
    layer = LayerNorm(library(bench), EPSILON)
    layer.residual_forward(bench.stream, *outputs, *inputs, ROWS, COLUMNS)
    parts = wide(residual, branch, branch_bias)
    return _norm_checks(bench, outputs, parts[0] + parts[1] + parts[2], weight, bias)


@scenario
def layernorm_embedding(bench: Bench, fault: str) -> list[Check]:
    """Three sequences of 11. Fault: the first token is -1."""
    length, vocabulary = 11, 35
    tokens = np.random.default_rng(0).integers(0, vocabulary, ROWS).astype(np.int32)
    given = tokens.copy()
    given[0] = -1 if fault == "padding token" else tokens[0]
    table, position = normal(0, vocabulary, COLUMNS), normal(1, length, COLUMNS)
    weight, bias = normal(2, COLUMNS), normal(3, COLUMNS)
    outputs = _norm_outputs(bench)
    inputs = [bench.put(a) for a in (given, table, position, weight, bias)]
    layer = LayerNorm(library(bench), EPSILON)
    layer.embedding_forward(bench.stream, *outputs, *inputs, ROWS, length, COLUMNS)
    of_tokens, of_places = wide(table, position)
    x = of_tokens[tokens] + of_places[np.arange(ROWS) % length]
    return _norm_checks(bench, outputs, x, weight, bias)


def _wide_rows() -> tuple[Array, Array]:
    """Rows that begin at each of the four places of a vector of 16 bytes, and their targets."""
    logits = normal(0, 5, 4099)
    return logits, np.random.default_rng(1).integers(0, 4099, 5).astype(np.int32)


@scenario
def cross_entropy_wide_forward(bench: Bench, fault: str) -> list[Check]:
    logits, targets = _wide_rows()
    rows, classes = logits.shape
    loss, inputs = bench.empty(rows, name="row_loss"), [bench.put(logits), bench.put(targets)]
    kernel = bench.kernel("cross_entropy_wide.cu", "cross_entropy_wide_forward")
    kernel(bench.stream, rows, 512, loss, *inputs, classes)
    want = twins.cross_entropy_forward(logits.astype(np.float64), targets)
    return close(bench, row_loss=(loss, want))


@scenario
def cross_entropy_wide_room(bench: Bench, fault: str) -> list[Check]:
    """Fault: half the shared memory that the vectors take."""
    logits, targets = _wide_rows()
    rows, classes = logits.shape
    loss, dlogits = bench.empty(rows, name="row_loss"), bench.put(logits, "logits")
    kernel = bench.kernel("cross_entropy_wide.cu", "cross_entropy_wide_forward_backward")
    room, given = classes // 4, bench.put(targets, "targets")
    each = 8 if fault == "bytes of half the vectors" else 16
    sizes = classes, room, 0.25
    kernel(bench.stream, rows, 512, loss, dlogits, given, *sizes, shared=each * room)
    exact = logits.astype(np.float64)
    want = twins.cross_entropy_backward(exact, targets, 0.25)
    losses = twins.cross_entropy_forward(exact, targets)
    return close(bench, row_loss=(loss, losses), dlogits=(dlogits, want))


@scenario
def relu_forward(bench: Bench, fault: str) -> list[Check]:
    x, bias = normal(0, ROWS, COLUMNS), normal(1, COLUMNS)
    y, grid = bench.put(x, "y"), ceil_div(ROWS * quads(COLUMNS), 128)
    kernel = bench.kernel("relu.cu", "bias_relu_forward")
    kernel(bench.stream, grid, 128, y, bench.put(bias, "bias"), ROWS, COLUMNS)
    return close(bench, y=(y, np.maximum(x.astype(np.float64) + bias, 0)))


@scenario
def adamw_shadow(bench: Bench, fault: str) -> list[Check]:
    """Of parameters that begin at the second float of a buffer, which the kernel allows."""
    n = 1157
    values, shadow = normal(0, n + 1), bench.empty(n, np.uint16, "shadow")
    layer = AdamW(library(bench), shadow=True)
    layer.refresh(bench.stream, shadow, bench.put(values, "param").address + 4, n)
    return [Check("shadow", bfloat16_values(bench.get(shadow)), to_bfloat16(values[1:]))]
