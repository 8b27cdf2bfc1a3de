"""The layers' kernels with bfloat16 activations, against the float64 twins of the rounded inputs.

Every bfloat16 result may be off by one rounding of it, 2^-8, beyond the float32 error that the same
kernel has with float32 activations: what is computed is float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowgraph.errors import ArgTypeError
from lowgraph.ops import Bias, BiasGelu, Cast, CrossEntropy, LayerNorm
from lowgraph.precision import BFLOAT16, Precision, bfloat16_bits, bfloat16_values
from tests.ops import twins
from tests.ops.compare import ROUNDOFF, Array, assert_close, in_place, normal, output, wide
from tests.ops.rounding import assert_rounded, to_bfloat16
from tests.support.rig import Rig

BF16 = Precision.BF16
SIZES = [(1, 1), (1, 33), (31, 31), (33, 64), (257, 257), (33, 768), (9, 1028)]
FLOAT = 64 * ROUNDOFF
"""Relative to the largest element: what the float32 kernels' own tests grant."""

seeds = pytest.mark.parametrize("seed", [0, 1])
sizes = pytest.mark.parametrize(("rows", "channels"), SIZES)


def rounded(*shape: int, seed: int, scale: float = 1.0, mean: float = 0.0) -> tuple[Array, Array]:
    """Normal numbers as bfloat16 bits, and the same numbers in float64."""
    bits = bfloat16_bits(normal(seed, *shape, scale=scale, mean=mean))
    return bits, bfloat16_values(bits).astype(np.float64)


def narrow(rig: Rig, *shape: int, name: str = "out") -> Any:
    return output(rig, *shape, dtype=BFLOAT16, name=name)


def assert_once(got: Array, want: Array, what: str) -> None:
    assert_rounded(got, want, FLOAT * max(np.abs(want).max(initial=0.0), 1e-30), what)


@seeds
@sizes
def test_norm_forward(rig: Rig, rows: int, channels: int, seed: int) -> None:
    x, weight, bias = (
        normal(seed, rows, channels, mean=0.5),
        normal(1, channels),
        normal(2, channels),
    )
    y, mean, rstd = narrow(rig, rows, channels), output(rig, rows), output(rig, rows)

    LayerNorm(rig.library, precision=BF16).forward(
        rig.stream, y, mean, rstd, rig.put(x), rig.put(weight), rig.put(bias), rows, channels
    )

    want = twins.layernorm_forward(*wide(x, weight, bias), 1e-5)
    assert_once(y.get(), want[0], "y")
    assert_close(mean.get(), want[1], FLOAT, "mean")
    assert_close(rstd.get(), want[2], FLOAT, "rstd")


@seeds
@sizes
def test_norm_of_a_residual(rig: Rig, rows: int, channels: int, seed: int) -> None:
    residual, branch = normal(seed, rows, channels), normal(5, rows, channels)
    rest = [normal(n, channels) for n in (1, 2, 3)]
    x, y = in_place(rig, branch), narrow(rig, rows, channels)
    mean, rstd = output(rig, rows), output(rig, rows)
    read = [rig.put(residual), x, *(rig.put(a) for a in rest)]

    LayerNorm(rig.library, precision=BF16).residual_forward(
        rig.stream, x, y, mean, rstd, *read, rows, channels
    )

    want = twins.layernorm_forward(*wide(residual + (branch + rest[0]), *rest[1:]), 1e-5)
    assert_once(y.get(), want[0], "y")
    np.testing.assert_array_equal(x.get(), residual + (branch + rest[0]))


@pytest.mark.parametrize("added", [False, True])
@seeds
@pytest.mark.parametrize(("rows", "channels"), SIZES[1:])
def test_norm_backward(rig: Rig, rows: int, channels: int, seed: int, added: bool) -> None:
    """dx and the parameters' gradients stay float32; the copy of dx is its rounding."""
    dy, exact_dy = rounded(rows, channels, seed=7)
    x, weight, before = normal(seed, rows, channels), normal(1, channels), normal(3, rows, channels)
    _, mean, rstd = twins.layernorm_forward(*wide(x, weight, weight), 1e-5)
    given = [rig.put(a.astype(np.float32)) for a in (x, weight, mean, rstd)]
    dx = in_place(rig, before) if added else output(rig, rows, channels)
    copy, gradients = narrow(rig, rows, channels), output(rig, 2 * channels)
    partial = output(rig, LayerNorm.chunks(rows).chunks, 2 * channels)
    places = rig.put(np.arange(2 * channels, dtype=np.int32))
    norm = LayerNorm(rig.library, precision=BF16)

    norm.backward(
        rig.stream, dx, partial, rig.put(dy), *given, rows, channels, add_dx=added, narrow=copy
    )
    norm.parameters(rig.stream, gradients, partial, places, rows, 2 * channels)

    want = twins.layernorm_backward(exact_dy, *wide(x, weight), 1e-5)
    assert_close(dx.get(), want[0] + (before if added else 0), FLOAT, "dx")
    assert_close(gradients.get()[:channels], want[1], FLOAT, "dweight")
    assert_close(gradients.get()[channels:], want[2], FLOAT, "dbias")
    np.testing.assert_array_equal(copy.get(), bfloat16_bits(dx.get()))


@pytest.mark.parametrize("channels", [64, 768])
@pytest.mark.parametrize("offset", [1, 2])
def test_a_norms_operands_may_start_at_any_element(rig: Rig, offset: int, channels: int) -> None:
    """Rows whose float32 tensors could be read by quads, beside bfloat16 ones that could not."""
    rows = 9
    dy, exact_dy = rounded(rows, channels, seed=7)
    x, weight, bias = normal(0, rows, channels), normal(1, channels), normal(2, channels)
    mean, rstd = output(rig, rows), output(rig, rows)
    y, copy = (narrow(rig, rows * channels + offset) for _ in range(2))
    shifted = in_place(rig, np.concatenate([dy.ravel()[:offset], dy.ravel()]))
    given, dx = [rig.put(a) for a in (x, weight)], output(rig, rows, channels)
    partial = output(rig, LayerNorm.chunks(rows).chunks, 2 * channels)
    sizes, norm = (rows, channels), LayerNorm(rig.library, precision=BF16)

    norm.forward(rig.stream, y.address + 2 * offset, mean, rstd, *given, rig.put(bias), *sizes)
    norm.backward(
        rig.stream, dx, partial, shifted.address + 2 * offset, *given, mean, rstd, *sizes,
        narrow=copy.address + 2 * offset,
    )  # fmt: skip

    want = twins.layernorm_forward(*wide(x, weight, bias), 1e-5)[0]
    assert_once(y.get()[offset:].reshape(sizes), want, "y")
    assert_close(
        dx.get(), twins.layernorm_backward(exact_dy, *wide(x, weight), 1e-5)[0], FLOAT, "dx"
    )
    np.testing.assert_array_equal(copy.get()[offset:].reshape(sizes), bfloat16_bits(dx.get()))


def test_norm_backward_without_a_copy(rig: Rig) -> None:
    rows, channels = 19, 36
    dy, x, row = rounded(rows, channels, seed=1)[0], normal(2, rows, channels), normal(3, channels)
    given = [rig.put(a) for a in (dy, x, row, normal(4, rows), normal(5, rows))]
    partial = output(rig, LayerNorm.chunks(rows).chunks, 2 * channels)
    found = []
    for copy in (narrow(rig, rows, channels), 0):
        dx = output(rig, rows, channels)
        LayerNorm(rig.library, precision=BF16).backward(
            rig.stream, dx, partial, *given, rows, channels, narrow=copy
        )
        found.append(dx.get())
    np.testing.assert_array_equal(*found)


@seeds
@sizes
def test_bias(rig: Rig, rows: int, channels: int, seed: int) -> None:
    y, exact = rounded(rows, channels, seed=seed)
    bias, dbias = normal(3, channels), output(rig, channels)
    inout, layer = in_place(rig, y), Bias(rig.library, BF16)
    partial = output(rig, *Bias.partial_shape(rows, channels))

    layer.forward(rig.stream, inout, rig.put(bias), rows, channels)
    layer.backward(rig.stream, dbias, partial, rig.put(y), rows, channels)

    assert_rounded(inout.get(), exact + bias, ROUNDOFF * (np.abs(exact) + np.abs(bias)), "y")
    off = np.abs(dbias.get() - exact.sum(axis=0))
    assert (off <= (rows + 1) * ROUNDOFF * np.abs(exact).sum(axis=0)).all()


@seeds
@sizes
def test_gelu_forward(rig: Rig, rows: int, channels: int, seed: int) -> None:
    """The activation is that of the exact sum, not of the sum as it is left for backward."""
    pre, exact = rounded(rows, channels, seed=seed, scale=3.0)
    bias, activation, kept = normal(3, channels), narrow(rig, rows, channels), in_place(rig, pre)

    BiasGelu(rig.library, BF16).forward(rig.stream, activation, kept, rig.put(bias), rows, channels)

    assert_once(kept.get(), exact + bias, "pre")
    assert_once(activation.get(), twins.gelu_forward(exact + bias), "activation")


@pytest.mark.parametrize("in_its_place", [False, True])
@seeds
@sizes
def test_gelu_backward(rig: Rig, rows: int, channels: int, seed: int, in_its_place: bool) -> None:
    pre, exact = rounded(rows, channels, seed=seed, scale=3.0)
    gradient, exact_gradient = rounded(rows, channels, seed=9)
    given = in_place(rig, gradient)
    dpre = given if in_its_place else narrow(rig, rows, channels)

    BiasGelu(rig.library, BF16).backward(rig.stream, dpre, given, rig.put(pre), rows, channels)

    assert_once(dpre.get(), twins.gelu_backward(exact_gradient, exact), "dpre")


@seeds
@pytest.mark.parametrize(
    ("rows", "classes"),
    [(1, 1), (1, 257), (31, 33), (257, 31), (65, 256), (2, 50304), (9, 7001), (2, 60001)],
)
def test_cross_entropy(rig: Rig, rows: int, classes: int, seed: int) -> None:
    """The gradient is rounded once, after the target's 1 was taken away."""
    logits, exact = rounded(rows, classes, seed=seed, scale=3.0)
    targets = np.random.default_rng(seed).integers(0, classes, rows).astype(np.int32)
    layer = CrossEntropy(rig.library, BF16)
    row_loss, beside, dlogits = output(rig, rows), output(rig, rows), in_place(rig, logits)

    layer.forward(rig.stream, row_loss, rig.put(logits), rig.put(targets), rows, classes)
    layer.forward_backward(rig.stream, beside, dlogits, rig.put(targets), rows, classes, 1 / rows)

    want = twins.cross_entropy_forward(exact, targets)
    # Absolute: a loss is the difference of numbers up to 12.
    assert np.abs(row_loss.get() - want).max() <= 12 * FLOAT
    assert np.abs(beside.get() - want).max() <= 12 * FLOAT
    gradient = twins.cross_entropy_backward(exact, targets, 1 / rows)
    assert_rounded(dlogits.get(), gradient, FLOAT / rows, "dlogits")


def test_a_sure_target_keeps_its_gradient(rig: Rig) -> None:
    """p - 1 with p = 0.9997: p rounded to 8 bits first would be 1 and leave nothing."""
    logits = bfloat16_bits(np.array([[8.0, 0.0, -2.0, -4.0, -6.0]]))
    dlogits = in_place(rig, logits)
    CrossEntropy(rig.library, BF16).forward_backward(
        rig.stream, output(rig, 1), dlogits, rig.put(np.zeros(1, np.int32)), 1, 5, 1.0
    )
    exact = bfloat16_values(logits).astype(np.float64)
    want = twins.cross_entropy_backward(exact, np.zeros(1, np.int32), 1.0)
    assert -4e-4 < want[0, 0] < -3e-4
    assert_rounded(dlogits.get(), want, FLOAT, "dlogits")


@seeds
@pytest.mark.parametrize("count", [0, 1, 31, 33, 257, 512])
def test_cast(rig: Rig, count: int, seed: int) -> None:
    values, out = normal(seed, count), narrow(rig, count)
    Cast(rig.library).forward(rig.stream, out, rig.put(values), count)
    np.testing.assert_array_equal(bfloat16_values(out.get()), to_bfloat16(values))


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_activations_may_start_at_any_element(rig: Rig, offset: int) -> None:
    """Rows that do not begin at a multiple of 8 bytes are read and written one by one."""
    values, bits = normal(0, 64 + offset), in_place(rig, bfloat16_bits(normal(1, 64 + offset)))
    before = bits.get()
    source = rig.put(values)
    place = bits.address + 2 * offset
    Cast(rig.library).forward(rig.stream, place, source.address + 4 * offset, 64)
    Bias(rig.library, BF16).forward(rig.stream, place, source.address, 1, 64)
    after = bits.get()
    np.testing.assert_array_equal(after[:offset], before[:offset])
    want = to_bfloat16(values[offset:]).astype(np.float64) + values[:64]
    assert_rounded(after[offset:], want, 4 * ROUNDOFF, "y")


def test_float32_memory_is_refused(rig: Rig) -> None:
    wide_y, row = rig.put(normal(0, 2, 4)), rig.put(normal(1, 4))
    with pytest.raises(ArgTypeError, match=r"bias_add.*y.*uint16 elements.*float32"):
        Bias(rig.library, BF16).forward(rig.stream, wide_y, row, 2, 4)
    bits = rig.put(rounded(2, 4, seed=0)[0])
    with pytest.raises(ArgTypeError, match=r"bias_add.*y.*float32 elements.*uint16"):
        Bias(rig.library).forward(rig.stream, bits, row, 2, 4)


def test_no_rows(rig: Rig) -> None:
    nothing, row = rig.put(np.zeros((0, 8), np.uint16)), rig.put(np.ones(8, np.float32))
    none, partial = rig.put(np.zeros((0, 8), np.float32)), output(rig, 1, 16)
    norm = LayerNorm(rig.library, precision=BF16)

    norm.forward(rig.stream, nothing, none, none, none, row, row, 0, 8)
    norm.backward(rig.stream, none, partial, nothing, none, row, none, none, 0, 8, narrow=nothing)
    BiasGelu(rig.library, BF16).forward(rig.stream, nothing, nothing, row, 0, 8)
    CrossEntropy(rig.library, BF16).forward(rig.stream, none, nothing, none.address, 0, 8)

    assert not partial.get().any()
