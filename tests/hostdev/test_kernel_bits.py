"""Integer and bit intrinsics against Python's unbounded integers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.rig import Rig

pytestmark = pytest.mark.both
KERNELS = Path(__file__).parent / "kernels" / "bits.cu"
N = 257
ONES = 0xFFFFFFFF


def signed(x: int, bits: int = 32) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def quotient(p: int, q: int) -> int:
    """Division that truncates, as in C."""
    return abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)


def reverse(x: int, bits: int) -> int:
    return int(f"{x:0{bits}b}"[::-1], 2)


def parts(x: int, bits: int, is_signed: bool = True) -> list[int]:
    """A word's pieces of `bits` bits, lowest first."""
    pieces = [x >> at & ((1 << bits) - 1) for at in range(0, 32, bits)]
    return [signed(piece, bits) for piece in pieces] if is_signed else pieces


def permuted(u: int, v: int, w: int) -> int:
    source, result = (v << 32 | u).to_bytes(8, "little"), []
    for i in range(4):
        result.append(source[w >> 4 * i & 7])
    return int.from_bytes(bytes(result), "little")


def dot(left: list[int], right: list[int]) -> int:
    return sum(x * y for x, y in zip(left, right, strict=False))


WORDS: tuple[Callable[[int, int, int], int], ...] = (
    lambda u, v, w: u.bit_count(),
    lambda u, v, w: 32 - u.bit_length(),
    lambda u, v, w: (u & -u).bit_length(),
    lambda u, v, w: reverse(u, 32),
    lambda u, v, w: u * v >> 32,
    lambda u, v, w: signed(u) * signed(v) >> 32,
    lambda u, v, w: (u & 0xFFFFFF) * (v & 0xFFFFFF),
    lambda u, v, w: signed(u, 24) * signed(v, 24),
    lambda u, v, w: (signed(u) + signed(v)) >> 1,
    lambda u, v, w: (signed(u) + signed(v) + 1) >> 1,
    lambda u, v, w: (u + v) >> 1,
    lambda u, v, w: (u + v + 1) >> 1,
    lambda u, v, w: abs(signed(u) - signed(v)) + w,
    lambda u, v, w: abs(u - v) + w,
    permuted,
    lambda u, v, w: (v << 32 | u) << (w & 31) >> 32,
    lambda u, v, w: (v << 32 | u) >> (w & 31),
    lambda u, v, w: (v << 32 | u) << min(w & 63, 32) >> 32,
    lambda u, v, w: (v << 32 | u) >> min(w & 63, 32),
    lambda u, v, w: dot(parts(u, 8), parts(v, 8)) + w,
    lambda u, v, w: dot(parts(u, 8, False), parts(v, 8, False)) + w,
    lambda u, v, w: dot(parts(u, 16), parts(v, 8)) + w,
    lambda u, v, w: dot(parts(u, 16, False), parts(v, 8, False)[2:]) + w,
    lambda u, v, w: min(u, v),
)
DOUBLE_WORDS: tuple[Callable[[int, int], int], ...] = (
    lambda u, v: u.bit_count(),
    lambda u, v: 64 - u.bit_length(),
    lambda u, v: (u & -u).bit_length(),
    lambda u, v: reverse(u, 64),
    lambda u, v: u * v >> 64,
    lambda u, v: signed(u, 64) * signed(v, 64) >> 64,
    lambda u, v: u,
    lambda u, v: u,
    lambda u, v: max(signed(u, 64), signed(v, 64)),
    lambda u, v: u % (v | 1) + quotient(signed(u, 64), signed(v | 1, 64)),
)


def _patterns(seed: int, dtype: type[np.unsignedinteger]) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, np.iinfo(dtype).max, N, dtype, endpoint=True)
    values >>= rng.integers(0, 8, N).astype(dtype) * dtype(np.iinfo(dtype).bits // 8)
    values[:4] = [0, 1, np.iinfo(dtype).max, 1 << (np.iinfo(dtype).bits - 1)]
    return rng.permutation(values)


def test_operations_on_words(rig: Rig) -> None:
    a, b, c = (_patterns(seed, np.uint32) for seed in range(3))
    y = rig.empty((len(WORDS), N), np.uint32)
    kernel = rig.library.kernel(KERNELS, "words")
    kernel(rig.stream, 3, 96, y, rig.put(a), rig.put(b), rig.put(c), N)
    columns = list(zip(a.tolist(), b.tolist(), c.tolist(), strict=True))
    for row, (got, operation) in enumerate(zip(rig.get(y), WORDS, strict=True)):
        assert got.tolist() == [operation(*words) & ONES for words in columns], f"row {row}"


def test_operations_on_double_words(rig: Rig) -> None:
    a, b = (_patterns(seed, np.uint64) for seed in (3, 4))
    nan = (a >> np.uint64(52) & np.uint64(0x7FF)) == 0x7FF
    a[nan] >>= np.uint64(12)  # the bits of a NaN need not survive as a double
    y = rig.empty((len(DOUBLE_WORDS), N), np.uint64)
    kernel = rig.library.kernel(KERNELS, "double_words")
    kernel(rig.stream, 3, 96, y, rig.put(a), rig.put(b), N)
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    for row, (got, operation) in enumerate(zip(rig.get(y), DOUBLE_WORDS, strict=True)):
        wanted = [operation(*words) & (1 << 64) - 1 for words in pairs]
        assert got.tolist() == wanted, f"row {row}"


def _nth_set_bit(mask: int, base: int, offset: int) -> int:
    bits = [bit for bit in range(32) if mask >> bit & 1]
    if offset == 0:
        return base if base in bits else ONES
    path = [b for b in bits if b >= base] if offset > 0 else [b for b in bits if b <= base][::-1]
    return path[abs(offset) - 1] if len(path) >= abs(offset) else ONES


def test_bits_of_floats_and_the_nth_set_bit(rig: Rig) -> None:
    a = _patterns(5, np.uint32)
    a[(a >> 23 & 0xFF) == 0xFF] >>= 9
    y = rig.empty((5, N), np.uint32)
    rig.library.kernel(KERNELS, "reinterpreted")(rig.stream, 3, 96, y, rig.put(a), N)
    got = rig.get(y)
    np.testing.assert_array_equal(got[:2], [a, a])
    for row, (base, offset) in enumerate(((0, 3), (20, -2), (7, 0)), 2):
        assert got[row].tolist() == [_nth_set_bit(u, base, offset) for u in a.tolist()], row
