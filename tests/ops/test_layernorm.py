from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from lowgraph.ops import LayerNorm
from tests.ops import twins
from tests.ops.compare import (
    ROUNDOFF,
    Array,
    Output,
    assert_close,
    assert_same_bits,
    in_place,
    normal,
    output,
    wide,
)
from tests.support.rig import Rig

EPSILON = 1e-5
# Up to 256 channels a row lies in registers of 16 lanes, up to 768 of a warp's where all rows begin
# at a multiple of 16 bytes; 4100 rows are more than 256 chunks of 16.
SIZES = [(1, 1), (1, 33), (31, 31), (33, 64), (257, 257), (40, 256), (17, 700), (4100, 5),
         (33, 768), (18, 769), (9, 1028)]  # fmt: skip
# A row's sums have at most 1028 terms, added in groups: a few dozen roundings each way.
CLOSE = 64 * ROUNDOFF


def workspace(rig: Rig, rows: int, columns: int) -> Output:
    return output(rig, LayerNorm.chunks(rows).chunks, columns, name="partial")


class Backward(NamedTuple):
    """dx, and the gradients of weight and bias."""

    dx: Array
    dweight: Array
    dbias: Array


def run_backward(
    rig: Rig, dx: Output, gradients: Output, given: list[Any], rows: int, channels: int,
    *, add: bool = False,
) -> Backward:  # fmt: skip
    """Both launches; gradients [2 channels], the weight's behind the bias's."""
    norm, partial = LayerNorm(rig.library), workspace(rig, rows, 2 * channels)
    places = np.roll(np.arange(2 * channels, dtype=np.int32), channels)
    norm.backward(rig.stream, dx, partial, *given, rows, channels, add_dx=add)
    norm.parameters(
        rig.stream, gradients, partial, rig.put(places), rows, 2 * channels, accumulate=add
    )
    partial.get()
    found = gradients.get()
    return Backward(dx.get(), found[channels:], found[:channels])


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_forward(rig: Rig, rows: int, channels: int, seed: int) -> None:
    x, weight, bias = (
        normal(seed, rows, channels, mean=0.5),
        normal(1, channels),
        normal(2, channels),
    )
    y, mean, rstd = output(rig, rows, channels), output(rig, rows), output(rig, rows)

    LayerNorm(rig.library).forward(
        rig.stream, y, mean, rstd, rig.put(x), rig.put(weight), rig.put(bias), rows, channels
    )

    want = twins.layernorm_forward(*wide(x, weight, bias), EPSILON)
    for name, got, wanted in zip(("y", "mean", "rstd"), (y, mean, rstd), want, strict=True):
        assert_close(got.get(), wanted, CLOSE, name)


def test_forward_keeps_a_small_spread_on_a_large_mean(rig: Rig) -> None:
    """Mean of squares minus square of the mean would lose every digit here."""
    x = normal(3, 8, 96, mean=1000.0, scale=0.05)
    ones, zeros = np.ones(96, np.float32), np.zeros(96, np.float32)
    y, mean, rstd = output(rig, 8, 96), output(rig, 8), output(rig, 8)

    LayerNorm(rig.library).forward(
        rig.stream, y, mean, rstd, rig.put(x), rig.put(ones), rig.put(zeros), 8, 96
    )

    want, _, want_rstd = twins.layernorm_forward(*wide(x, ones, zeros), EPSILON)
    assert_close(y.get(), want, CLOSE, "y")
    assert_close(rstd.get(), want_rstd, CLOSE, "rstd")


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_residual_forward(rig: Rig, rows: int, channels: int, joined: bool, seed: int) -> None:
    """joined: the sum takes the place of the branch, as a model has it."""
    residual, branch = normal(seed, rows, channels, mean=0.5), normal(1, rows, channels)
    add, weight, bias = (normal(n, channels) for n in (2, 3, 4))
    given = in_place(rig, branch)
    x = given if joined else output(rig, rows, channels)
    y, mean, rstd = output(rig, rows, channels), output(rig, rows), output(rig, rows)
    read = [rig.put(residual), given, *(rig.put(a) for a in (add, weight, bias))]

    LayerNorm(rig.library).residual_forward(rig.stream, x, y, mean, rstd, *read, rows, channels)

    assert_same_bits(x.get(), residual + (branch + add), "x")
    want = twins.layernorm_forward(*wide(residual + (branch + add), weight, bias), EPSILON)
    for name, got, wanted in zip(("y", "mean", "rstd"), (y, mean, rstd), want, strict=True):
        assert_close(got.get(), wanted, CLOSE, name)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("batch", "length", "channels"), [(1, 1, 1), (3, 31, 33), (2, 9, 700)])
def test_embedding_forward(rig: Rig, batch: int, length: int, channels: int, seed: int) -> None:
    rows = batch * length
    tokens = np.random.default_rng(seed).integers(0, 31, (batch, length)).astype(np.int32)
    table, positions = normal(1, 31, channels), normal(2, length, channels)
    weight, bias = normal(3, channels), normal(4, channels)
    x, y = output(rig, rows, channels), output(rig, rows, channels)
    mean, rstd = output(rig, rows), output(rig, rows)
    read = [rig.put(a) for a in (tokens, table, positions, weight, bias)]

    LayerNorm(rig.library).embedding_forward(
        rig.stream, x, y, mean, rstd, *read, rows, length, channels
    )

    embedded = twins.embedding_forward(tokens, table, positions).reshape(rows, channels)
    assert_same_bits(x.get(), embedded, "x")
    want = twins.layernorm_forward(*wide(embedded, weight, bias), EPSILON)
    for name, got, wanted in zip(("y", "mean", "rstd"), (y, mean, rstd), want, strict=True):
        assert_close(got.get(), wanted, CLOSE, name)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("rows", "channels"), SIZES)
def test_backward(rig: Rig, rows: int, channels: int, seed: int) -> None:
    x, dy, weight = normal(seed, rows, channels), normal(7, rows, channels), normal(1, channels)
    _, mean, rstd = twins.layernorm_forward(*wide(x, weight, weight), EPSILON)
    given = [rig.put(a.astype(np.float32)) for a in (dy, x, weight, mean, rstd)]

    got = run_backward(
        rig, output(rig, rows, channels), output(rig, 2 * channels), given, rows, channels
    )

    want = twins.layernorm_backward(*wide(dy, x, weight), EPSILON)
    if channels == 1:
        # xhat is 0 and dx vanishes; rstd is 316, so what is left is its rounding times dy.
        want = (np.zeros_like(want[0]), np.zeros_like(want[1]), want[2])
        assert np.abs(got.dx).max() <= 316 * 8 * ROUNDOFF * np.abs(dy * weight).max()
        assert np.abs(got.dweight).max() <= 316 * ROUNDOFF * np.abs(x).max() * np.abs(dy).sum()
    else:
        assert_close(got.dx, want[0], CLOSE, "dx")
        assert_close(got.dweight, want[1], CLOSE, "dweight")
    assert_close(got.dbias, want[2], CLOSE, "dbias")


@pytest.mark.parametrize("channels", [36, 260, 1028])
def test_backward_adds_where_asked(rig: Rig, channels: int) -> None:
    rows = 45
    x, dy, weight = normal(0, rows, channels), normal(1, rows, channels), normal(2, channels)
    dx, before = normal(3, rows, channels), normal(4, 2 * channels)
    _, mean, rstd = twins.layernorm_forward(*wide(x, weight, weight), EPSILON)
    given = [rig.put(a.astype(np.float32)) for a in (dy, x, weight, mean, rstd)]

    into = in_place(rig, dx), in_place(rig, before)
    got = run_backward(rig, *into, given, rows, channels, add=True)

    want = twins.layernorm_backward(*wide(dy, x, weight), EPSILON)
    old = dx, before[channels:], before[:channels]
    for name, found, added, new in zip(Backward._fields, got, old, want, strict=True):
        assert_close(found, added + new, CLOSE, name)


@pytest.mark.parametrize("channels", [36, 260, 1028])
def test_dx_may_be_dy(rig: Rig, channels: int) -> None:
    rows = 50
    x, dy, weight = normal(0, rows, channels), normal(1, rows, channels), normal(2, channels)
    rest = [rig.put(a) for a in (x, weight, normal(3, rows), normal(4, rows))]
    both = in_place(rig, dy)
    apart = output(rig, rows, channels)

    same = run_backward(rig, both, output(rig, 2 * channels), [both, *rest], rows, channels)
    given = [rig.put(dy), *rest]
    other = run_backward(rig, apart, output(rig, 2 * channels), given, rows, channels)

    for name, first, second in zip(Backward._fields, same, other, strict=True):
        assert_same_bits(first, second, name)


def test_norms_share_one_workspace(rig: Rig) -> None:
    """Each has its columns, and one launch adds those of all."""
    rows, channels, norms = 45, 36, 3
    columns, chunks = 2 * channels * norms, LayerNorm.chunks(rows).chunks
    layer, partial = LayerNorm(rig.library), output(rig, chunks, columns)
    gradients = in_place(rig, np.zeros(columns + 7, np.float32))
    want, places = [], np.arange(columns, dtype=np.int32)[::-1] + 7
    for n in range(norms):
        x, dy, weight = (normal(10 * n + i, rows, channels) for i in range(3))
        _, mean, rstd = twins.layernorm_forward(*wide(x, weight[0], weight[0]), EPSILON)
        given = [rig.put(a.astype(np.float32)) for a in (dy, x, weight[0], mean, rstd)]
        at = partial.address + 4 * 2 * channels * n
        into = output(rig, rows, channels)
        layer.backward(rig.stream, into, at, *given, rows, channels, stride=columns)
        found = twins.layernorm_backward(*wide(dy, x, weight[0]), EPSILON)
        want += [found[1], found[2]]
        assert_close(into.get(), found[0], CLOSE, f"dx {n}")

    order = np.ascontiguousarray(places)
    layer.parameters(rig.stream, gradients, partial, rig.put(order), rows, columns)

    got = gradients.get()
    assert_close(got[7:][::-1], np.concatenate(want), CLOSE, "gradients")
    assert not got[:7].any()


@pytest.mark.parametrize("channels", [72, 768])
def test_backward_repeats_bit_for_bit(rig: Rig, channels: int) -> None:
    rows = 300
    arrays = normal(0, rows, channels), normal(1, rows, channels), normal(2, channels)
    given = [rig.put(array) for array in (*arrays, normal(3, rows), normal(4, rows))]
    runs = []
    for _ in range(3):
        into = output(rig, rows, channels), output(rig, 2 * channels)
        runs.append(run_backward(rig, *into, given, rows, channels))
    for later in runs[1:]:
        for first, second in zip(runs[0], later, strict=True):
            assert_same_bits(first, second)


@pytest.mark.parametrize("channels", [64, 768])
def test_parameters_may_start_at_any_float(rig: Rig, channels: int) -> None:
    """A part of an arena need not be 16-byte aligned, though its rows could be read by quads."""
    rows = 5
    x, dy, both = normal(0, rows, channels), normal(2, rows, channels), normal(1, 2 * channels + 1)
    arena, norm = rig.put(both), LayerNorm(rig.library)
    y, mean, rstd = output(rig, rows, channels), output(rig, rows), output(rig, rows)
    weight, bias = both[1 : channels + 1], both[channels + 1 :]
    at, given = arena.address + 4, rig.put(x)

    norm.forward(rig.stream, y, mean, rstd, given, at, at + 4 * channels, rows, channels)

    want, _, _ = twins.layernorm_forward(*wide(x, weight, bias), EPSILON)
    assert_close(y.get(), want, CLOSE, "y")
    read = [rig.put(dy), given, at, rig.put(mean.get()), rig.put(rstd.get())]
    into = output(rig, rows, channels), output(rig, 2 * channels)
    got = run_backward(rig, *into, read, rows, channels)
    expected = twins.layernorm_backward(*wide(dy, x, weight), EPSILON)
    for name, found, wanted in zip(Backward._fields, got, expected, strict=True):
        assert_close(found, wanted, CLOSE, name)


def test_no_rows(rig: Rig) -> None:
    nothing = rig.put(np.zeros((0, 8), np.float32))
    row, norm = rig.put(np.ones(8, np.float32)), LayerNorm(rig.library)
    none, gradients = output(rig, 0, 8), output(rig, 16)

    norm.forward(rig.stream, nothing, nothing, nothing, nothing, row, row, 0, 8)
    norm.residual_forward(rig.stream, *[nothing] * 6, *[row] * 3, 0, 8)
    norm.embedding_forward(rig.stream, *[nothing] * 4, rig.put(np.zeros(0, np.int32)),
                           *[row] * 4, 0, 1, 8)  # fmt: skip
    got = run_backward(rig, none, gradients, [nothing, nothing, row, nothing, nothing], 0, 8)

    assert not got.dweight.any()
    assert not got.dbias.any()
