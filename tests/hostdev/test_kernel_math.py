"""Mathematical functions, rounding modes and conversions against NumPy and exact arithmetic."""

from __future__ import annotations

import ctypes
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.rig import Rig

pytestmark = pytest.mark.both
KERNELS = Path(__file__).parent / "kernels" / "math.cu"
N = 257
each = np.vectorize


def _inputs(dtype: Any = np.float64) -> tuple[Any, Any]:
    rng = np.random.default_rng(7)
    return rng.uniform(0.05, 8, N).astype(dtype), rng.uniform(-6, 6, N).astype(dtype)


def _run(rig: Rig, name: str, *arrays: Any) -> None:
    rig.library.kernel(KERNELS, name)(rig.stream, 3, 96, *arrays, N)


def _common(p: Any, q: Any) -> list[Any]:
    """The rows of common_functions, of float64 numbers."""
    away = np.copysign(np.floor(np.abs(q) + 0.5), q)
    return [
        np.exp(q), np.log(p), np.sqrt(p), np.tanh(q), each(math.erf)(q), p**q, np.sin(q), np.cos(q),
        np.arctan2(q, p), np.cbrt(q), np.log1p(p), np.expm1(q), np.fmod(q, p), np.floor(q), away,
        np.hypot(p, q), np.exp2(q), np.log2(p), p * q + p, np.fmax(p, q), each(math.lgamma)(p),
        np.abs(q),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["float", "double"])
def test_functions_of_the_c_library(rig: Rig, name: str) -> None:
    dtype = np.dtype(np.float32 if name == "float" else np.float64)
    x, z = _inputs(dtype)
    y = rig.empty((22, N), dtype)
    _run(rig, f"functions_{name}", y, rig.put(x), rig.put(z))
    wanted = _common(x.astype(np.float64), z.astype(np.float64))
    # CUDA's guide: at most 9 units in the last place (pow, lgamma near its zeros: absolute).
    unit = float(np.finfo(dtype).eps)
    for row, values in enumerate(wanted):
        got = rig.get(y)[row]
        np.testing.assert_allclose(
            got, values, rtol=10 * unit, atol=10 * unit, err_msg=f"row {row}"
        )


@pytest.mark.host
def test_log_gamma_leaves_the_c_librarys_sign_alone(rig: Rig) -> None:
    """The C library's lgamma writes a variable of the process, as two blocks would at once."""
    sign = ctypes.c_int.in_dll(ctypes.CDLL("libm.so.6"), "signgam")
    x = np.linspace(-0.95, -0.05, N)  # the gamma function is negative there
    y = rig.empty((4, N), np.float64)
    sign.value = 7
    _run(rig, "log_gamma", y, rig.put(x))
    got = rig.get(y)
    assert sign.value == 7
    wanted = each(math.lgamma)(x)
    np.testing.assert_allclose(got[[0, 3]], [wanted] * 2, rtol=1e-14)
    np.testing.assert_allclose(got[[1, 2]], [wanted] * 2, rtol=1e-6)


def _normal_quantile(p: float) -> float:
    """By bisection: obvious, and as exact as math.erfc."""
    low, high = -40.0, 40.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if 0.5 * math.erfc(-middle / 2**0.5) < p else (low, middle)
    return low


def _scaled_erfc(x: float) -> float:
    """exp(x^2) erfc(x), by the asymptotic series where erfc would underflow."""
    if x < 20:
        return math.exp(x * x) * math.erfc(x)
    term = total = 1.0
    for k in range(1, 12):
        term *= -(2 * k - 1) / (2 * x * x)
        total += term
    return total / (x * math.pi**0.5)


def test_functions_that_only_cuda_has(rig: Rig) -> None:
    p, q = _inputs()
    u = np.random.default_rng(8).uniform(1e-6, 1 - 1e-6, N)
    y = rig.empty((18, N), np.float64)
    _run(rig, "cuda_functions", y, rig.put(p), rig.put(q), rig.put(u))
    quantile = each(_normal_quantile)(u)
    narrow = each(_normal_quantile)(u.astype(np.float32).astype(np.float64))
    half_narrow = each(_normal_quantile)((2 * u).astype(np.float32).astype(np.float64) / 2)
    root = 2**-0.5
    sinpi, cospi = np.sin(np.pi * q), np.cos(np.pi * q)
    wanted = [
        p**-0.5, 10**q, sinpi, cospi, sinpi, cospi, 1 / np.cbrt(p), 1 / np.hypot(p, q),
        0.5 * each(math.erfc)(-q * root), quantile, root * each(_normal_quantile)(u),
        -root * quantile, each(_scaled_erfc)(q), np.sqrt(2 * p * p + q * q),
        (2 * p * p + 2 * q * q) ** -0.5, each(_scaled_erfc)(10 * p), narrow, -root * half_narrow,
    ]  # fmt: skip
    for row, values in enumerate(wanted):
        # exp(x^2) magnifies the rounding of x^2 by x^2 = 36; a quantile is as steep at the ends;
        # the last two rows are floats, of 5 units in the last place by CUDA's table.
        rtol = 1e-12 if row < 16 else 6e-7
        np.testing.assert_allclose(
            rig.get(y)[row],
            values,
            rtol=rtol,
            atol=2e-10 if row < 16 else 3e-7,
            err_msg=f"row {row}",
        )


def test_fast_functions(rig: Rig) -> None:
    x, z = _inputs(np.float32)
    y = rig.empty((20, N))
    _run(rig, "fast_functions", y, rig.put(x), rig.put(z))
    p, q = x.astype(np.float64), z.astype(np.float64)
    wanted = [
        np.exp(q), np.log(p), q / p, p**-0.5, 1 / p, p**q, np.sin(q), np.cos(q), 10**q,
        np.log2(p), np.tan(q), np.clip(q, 0, 1), p**-0.5, np.sin(np.pi * q), np.cos(np.pi * q),
        0.5 * each(math.erfc)(-q * 2**-0.5), 10**q, 1 / np.cbrt(p), np.log10(p), q / p,
    ]  # fmt: skip
    got = rig.get(y)
    for row, values in enumerate(wanted):
        # The guide bounds the fast forms absolutely near zeros (2^-21) and relatively elsewhere;
        # __tanf is a quotient whose denominator has an absolute error: left loose near its poles.
        rtol = 1e-3 if row == 10 else 2e-5
        np.testing.assert_allclose(got[row], values, rtol=rtol, atol=2e-6, err_msg=f"row {row}")
    np.testing.assert_array_equal(got[4], np.float32(1) / x)  # _rn: exactly rounded
    np.testing.assert_array_equal(got[11], np.clip(z, 0, 1))


def _rounded(exact: Fraction, mode: str, dtype: Any) -> Any:
    """The number of `dtype` that the mode chooses for the exact value: n, z, u or d."""
    # float(Fraction) rounds to nearest float64; from there a step at most reaches every mode's.
    nearest = dtype(float(exact))
    around = sorted(
        {nearest, np.nextafter(nearest, dtype(-np.inf)), np.nextafter(nearest, dtype(np.inf))}
    )
    below = max(v for v in around if Fraction(float(v)) <= exact)
    above = min(v for v in around if Fraction(float(v)) >= exact)
    if mode == "z":
        return below if exact >= 0 else above
    if mode == "n":
        return min(
            (below, above),
            key=lambda v: (abs(Fraction(float(v)) - exact), v.view(f"i{v.nbytes}") & 1),
        )
    return above if mode == "u" else below


def _root(value: float, mode: str, dtype: Any) -> Any:
    """The square root, by comparing squares."""
    exact = Fraction(value)
    nearest = dtype(math.sqrt(value))
    below = nearest if Fraction(float(nearest)) ** 2 <= exact else np.nextafter(nearest, dtype(0))
    above = below if Fraction(float(below)) ** 2 == exact else np.nextafter(below, dtype(np.inf))
    return {"n": nearest, "z": below, "d": below, "u": above}[mode]


def test_rounding_in_the_name_is_exact(rig: Rig) -> None:
    x, z = _inputs(np.float32)
    narrow, wide = rig.empty((16, N)), rig.empty((16, N), np.float64)
    _run(rig, "directed", narrow, wide, rig.put(x), rig.put(z))
    cases = (
        (np.float32, narrow, x, z),
        (np.float64, wide, x.astype(np.float64), z.astype(np.float64) / 3),
    )
    for dtype, buffer, left, right in cases:
        got = rig.get(buffer).reshape(4, 4, N)
        for i in range(0, N, 4):
            p, q = Fraction(float(left[i])), Fraction(float(right[i]))
            for column, mode in enumerate("nzud"):
                wanted = [_rounded(value, mode, dtype) for value in (p + q, p * q, q / p)]
                wanted.append(_root(float(p), mode, dtype))
                assert got[:, column, i].tolist() == wanted, (i, mode, dtype)


def test_fused_and_separate_products(rig: Rig) -> None:
    x, _ = _inputs(np.float32)
    square = x * x  # what the product rounds to: fused, the difference is the rounding's error
    y = rig.empty((3, N))
    _run(rig, "fused", y, rig.put(x), rig.put(square))
    error = (x.astype(np.float64) ** 2 - square).astype(np.float32)
    np.testing.assert_array_equal(rig.get(y), [error, error, np.zeros(N)])
    assert (error != 0).any()


STEPS = (np.rint, np.trunc, np.ceil, np.floor)


def _saturated(values: Any, kind: str) -> list[int]:
    """As CUDA converts float64 numbers: out of range to the nearest end; no NaN here."""
    ends = np.iinfo(kind)
    return [min(max(int(v), ends.min), ends.max) if np.isfinite(v) else
            (ends.max if v > 0 else ends.min) for v in values]  # fmt: skip


def test_conversions_of_doubles(rig: Rig) -> None:
    rng = np.random.default_rng(9)
    x = rng.standard_normal(N) * 10.0 ** rng.integers(-2, 22, N)
    x[:10] = [0.5, 1.5, -2.5, 1e30, -1e30, np.inf, -np.inf, 0, -0.0, 2.0**31]
    y, z = rig.empty((16, N), np.int64), rig.empty((4, N))
    _run(rig, "conversions", y, z, rig.put(x))
    got = rig.get(y).reshape(4, 4, N)
    for row, kind in enumerate(("int32", "uint32", "int64", "uint64")):
        for column, step in enumerate(STEPS):
            wanted = np.array(_saturated(step(x), kind), dtype=object)
            found = got[row, column].astype(np.uint64) if kind == "uint64" else got[row, column]
            assert [int(v) for v in found] == list(wanted), (kind, column)
    for column, mode in enumerate("nzud"):
        floats = rig.get(z)[column]
        wanted = [float(_rounded(Fraction(v), mode, np.float32)) for v in x[7:]]
        np.testing.assert_array_equal(floats[7:], wanted)


def test_conversions_of_floats_and_wide_integers(rig: Rig) -> None:
    rng = np.random.default_rng(10)
    x = (rng.standard_normal(N) * 10.0 ** rng.integers(-2, 11, N)).astype(np.float32)
    x[:6] = [0.5, 1.5, -2.5, 1e30, -1e30, np.nan]
    j = rng.integers(-(1 << 63), 1 << 63, N) >> rng.integers(0, 60, N)
    y, w = rig.empty((8, N), np.int64), rig.empty((8, N), np.float64)
    _run(rig, "more_conversions", y, w, rig.put(x), rig.put(j))
    values = np.where(np.isnan(x), 0, x).astype(np.float64)  # a NaN converts to 0
    wanted = [_saturated(step(values), kind) for kind in ("int32", "uint32") for step in STEPS]
    assert rig.get(y).tolist() == wanted
    got = rig.get(w).reshape(2, 4, N)
    for row, dtype in enumerate((np.float32, np.float64)):
        for column, mode in enumerate("nzud"):
            exact = [float(_rounded(Fraction(int(v)), mode, dtype)) for v in j]
            np.testing.assert_array_equal(got[row, column], exact, f"{dtype} {mode}")
