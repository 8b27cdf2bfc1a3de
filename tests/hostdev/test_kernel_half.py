"""Half precision and bfloat16, bit for bit against NumPy: arithmetic, conversions, comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hostdev.narrow_floats import BFLOAT16, HALF, Narrow
from tests.support.rig import Rig

pytestmark = pytest.mark.both
KERNELS = Path(__file__).parent / "kernels" / "half.cu"
KINDS = {"half": HALF, "bf16": BFLOAT16}
N = 2 * 1999


def _run(rig: Rig, name: str, shape: Any, dtype: Any, *inputs: Any, n: int = N) -> Any:
    out = rig.empty(shape, dtype)
    addresses = [rig.put(values).address for values in inputs]
    kernel = rig.library.kernel(KERNELS, name)
    kernel(rig.stream, -(-n // 128), 128, out.address, *addresses, n)
    return rig.get(out)


def _assert_same_bits(kind: Narrow, got: Any, wanted: Any, what: str) -> None:
    """The same bits, except that a NaN is any NaN: hardware has one pattern, NumPy another."""
    both_nan = kind.is_nan(got) & kind.is_nan(wanted)
    differ = np.flatnonzero((got != wanted) & ~both_nan)
    assert not len(differ), (what, len(differ), got[differ[:5]], wanted[differ[:5]], differ[:5])


def _operands(kind: Narrow, count: int) -> list[Any]:
    """Random patterns of all exponents, and special values met with one another."""
    rng = np.random.default_rng(count)
    special = kind.bits(np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2**-24, 65504, 2**-133]))
    operands = []
    for _ in range(count):
        wild = rng.integers(0, 1 << 16, N // 2).astype(np.uint16)
        tame = kind.bits(rng.standard_normal(N - N // 2 - 200))
        operands.append(np.concatenate([wild, tame, rng.choice(special, 200)]))
    return operands


@pytest.mark.parametrize("name", KINDS)
def test_arithmetic(rig: Rig, name: str) -> None:
    kind = KINDS[name]
    bits = _operands(kind, 3)
    got = _run(rig, f"arithmetic_{name}", (10, N), np.uint16, *bits)
    a, b, c = (kind.wide(operand) for operand in bits)
    with np.errstate(all="ignore"):
        exact = [a + b, a - b, a * b, a / b, None, np.sqrt(np.abs(a))]
        wanted = [kind.fused(a, b, c) if e is None else kind.bits(e) for e in exact]
    sign = np.uint16(0x8000)
    wanted += [bits[0] ^ sign, bits[0] & ~sign]
    labels = ("sum", "difference", "product", "quotient", "fma", "root", "negative", "magnitude")
    for row, bits_wanted, label in zip(got, wanted, labels, strict=False):
        _assert_same_bits(kind, row, bits_wanted, label)
    for row, pick, label in ((8, np.fmin, "smaller"), (9, np.fmax, "larger")):
        np.testing.assert_array_equal(kind.wide(got[row]), pick(a, b), label)  # -0 equals 0


@pytest.mark.parametrize("name", KINDS)
def test_arithmetic_of_pairs(rig: Rig, name: str) -> None:
    kind = KINDS[name]
    bits = _operands(kind, 3)
    got = _run(rig, f"pairs_{name}", (5, N), np.uint16, *bits, n=N // 2)
    a, b, c = (kind.wide(operand) for operand in bits)
    with np.errstate(all="ignore"):
        fused = kind.fused(a, b, c)
        wanted = [kind.bits(a + b), kind.bits(a - b), kind.bits(a * b), fused]
        relu = np.where(kind.wide(fused) <= 0, np.uint16(0), fused)
    for row, bits_wanted, label in zip(got, [*wanted, relu], "+-*fr", strict=True):
        _assert_same_bits(kind, row, bits_wanted, label)


@pytest.mark.parametrize("name", KINDS)
def test_functions(rig: Rig, name: str) -> None:
    kind = KINDS[name]
    (bits,) = _operands(kind, 1)
    x = kind.wide(bits)
    keep = np.isnan(x) | (np.abs(x) < 16)  # hsin of large numbers has no error bound
    bits = np.where(keep, bits, kind.bits(np.ones(1))[0])
    x = kind.wide(bits)
    got = _run(rig, f"functions_{name}", (10, N), np.uint16, bits)
    with np.errstate(all="ignore"):
        exact = [np.floor(x), np.ceil(x), np.trunc(x), np.rint(x), np.exp(x), np.log(np.abs(x)),
                 1 / x, 1 / np.sqrt(np.abs(x)), np.sin(x), np.exp2(x)]  # fmt: skip
    for row, values in enumerate(exact):
        if row < 4:
            np.testing.assert_array_equal(kind.wide(got[row]), values, f"row {row}")
            continue
        # CUDA states 1 unit in the last place or a little more for these.
        with np.errstate(all="ignore"):
            wanted = kind.wide(kind.bits(values))
        close = kind.steps_between(got[row], kind.bits(values)) <= 2
        nan = np.isnan(wanted) & np.isnan(kind.wide(got[row]))
        assert (close | nan).all(), (row, x[~(close | nan)][:5])


def test_conversions_from_float(rig: Rig) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 1 << 32, N).astype(np.uint32).view(np.float32)
    x[np.isnan(x)] = np.nan  # not a signalling one
    near = (rng.standard_normal(N // 2) * 10.0 ** rng.integers(-8, 5, N // 2)).astype(np.float32)
    ties = np.arange(0x3F80, 0x3F80 + 100, dtype=np.uint32) << 16 | 0x8000
    x[: N // 2] = near
    x[:100], x[100:106] = ties.view(np.float32), [0, -0.0, np.inf, -np.inf, 65520, 1e-40]
    y, z, w = rig.empty((2, N), np.uint16), rig.empty((6, N), np.uint16), rig.empty((2, N))
    kernel = rig.library.kernel(KERNELS, "conversions")
    kernel(rig.stream, -(-N // 128), 128, y, z, w, rig.put(x), N)
    got, directed, back = rig.get(y), rig.get(z), rig.get(w)
    wide = x.astype(np.float64)
    for row, kind in enumerate((HALF, BFLOAT16)):
        _assert_same_bits(kind, got[row], kind.bits(wide), "nearest")
        np.testing.assert_array_equal(back[row], kind.wide(got[row]).astype(np.float32))
        for mode, bits in zip("zud", directed[3 * row : 3 * row + 3], strict=True):
            _assert_same_bits(kind, bits, kind.directed(wide, mode), mode)


def test_conversions_to_integers(rig: Rig) -> None:
    rng = np.random.default_rng(1)
    x = (rng.standard_normal(N) * 10.0 ** rng.integers(-2, 5, N)).astype(np.float32)
    x[:6] = [0.5, 1.5, -2.5, 1e30, -1e30, np.nan]
    got = _run(rig, "to_integers", (8, N), np.int32, x)
    with np.errstate(all="ignore"):
        rows = [step(kind.wide(kind.bits(x.astype(np.float64))))
                for kind in (HALF, BFLOAT16)
                for step in (np.rint, np.trunc, np.ceil, np.floor)]  # fmt: skip
    for row, values in enumerate(rows):
        wanted = np.clip(np.nan_to_num(values, nan=0.0), -(2.0**31), 2.0**31 - 1)
        np.testing.assert_array_equal(got[row], wanted.astype(np.int32), f"row {row}")


@pytest.mark.parametrize("name", KINDS)
def test_comparisons(rig: Rig, name: str) -> None:
    kind = KINDS[name]
    left, right = _operands(kind, 2)
    right[::3] = left[::3]
    got = _run(rig, f"comparisons_{name}", (N, 9), np.int32, left, right)
    a, b = kind.wide(left), kind.wide(right)
    unordered = np.isnan(a) | np.isnan(b)
    wanted = [a < b, a <= b, a == b, (a != b) & ~unordered, a > b, a >= b, np.isnan(a),
              np.isinf(a), (a > b) | unordered]  # fmt: skip
    # != of a NaN: false by __hne of half, true by IEEE; the headers differ, so it is left out.
    ordered = ~unordered
    for column, truth in enumerate(wanted):
        rows = ordered if column == 3 else slice(None)
        np.testing.assert_array_equal(got[rows, column] != 0, truth[rows], f"column {column}")


def test_pairs_are_taken_apart_and_put_together(rig: Rig) -> None:
    x = np.random.default_rng(3).standard_normal((N // 2, 2)).astype(np.float16)
    y, z = rig.empty(x.shape, np.float16), rig.empty(x.shape)
    kernel = rig.library.kernel(KERNELS, "handling")
    kernel(rig.stream, -(-N // 256), 128, y, z, rig.put(x), N // 2)
    np.testing.assert_array_equal(rig.get(y), x[:, ::-1])
    np.testing.assert_array_equal(rig.get(z), x.astype(np.float32))
