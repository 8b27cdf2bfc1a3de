"""gemm.cu with bfloat16 and TF32 operands, against the exact product of the rounded ones."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.compare import ROUNDOFF, Array, assert_same_bits, in_place, normal, output
from tests.ops.products import LAYOUTS, Types, launch, run
from tests.ops.rounding import assert_rounded, to_bfloat16, to_tf32
from tests.support.rig import Rig

BF16_OUT = Types("__nv_bfloat16", "__nv_bfloat16")
WIDE = {"bf16": Types("__nv_bfloat16"), "tf32": Types(tf32=True)}
TWIN = {"bf16": to_bfloat16, "tf32": to_tf32}
SIZES = [(1, 1, 1), (31, 33, 257), (64, 64, 64), (65, 1, 130), (1, 129, 63), (257, 96, 31)]
CHUNKS = [64, 100, 1000]  # of k: slabs of even and odd length, and none


def exact(a: Array, b: Array, before: Array | float = 0.0) -> tuple[Array, Array]:
    """The float64 product, and the bound of the error of its k float32 additions."""
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    size = np.abs(wide_a) @ np.abs(wide_b) + np.abs(before)
    # Products of 8 or 11 bits are exact in float32's 24: sums alone are rounded.
    return wide_a @ wide_b + before, (a.shape[1] + 1) * ROUNDOFF * size


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", WIDE)
def test_float_out(
    rig: Rig, name: str, layout: str, size: tuple[int, int, int], accumulate: bool
) -> None:
    m, n, k = size
    a, b, before = normal(m, m, k), normal(n, k, n), normal(2, m, n)
    out = in_place(rig, before) if accumulate else output(rig, m, n)

    run(rig, WIDE[name], layout, a, b, out, accumulate=accumulate, chunk=100)

    want, error = exact(TWIN[name](a), TWIN[name](b), before if accumulate else 0.0)
    off = np.abs(out.get() - want)
    assert (off <= error).all(), f"beyond the rounding bound by {np.max(off - error):.2e}"


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_bfloat16_out(rig: Rig, layout: str, size: tuple[int, int, int], chunk: int) -> None:
    """Rounded once, at the end: partial products of a split stay float32."""
    m, n, k = size
    a, b = normal(m, m, k), normal(n, k, n)
    out = output(rig, m, n, dtype=np.uint16)

    run(rig, BF16_OUT, layout, a, b, out, chunk=chunk)

    assert_rounded(out.get(), *exact(to_bfloat16(a), to_bfloat16(b)))


@pytest.mark.parametrize("name", WIDE)
def test_operands_are_rounded(rig: Rig, name: str) -> None:
    """Ties, to even or away from zero; with 1 as the other factor nothing else is rounded."""
    bits = {"bf16": 16, "tf32": 13}[name]
    half = 1 << (bits - 1)
    around = [0, 1, half - 1, half, half + 1, half | 1 << bits]
    words = np.array([0x3F800000 + offset for offset in around], np.uint32)
    a = np.concatenate([words, words | np.uint32(0x80000000)]).view(np.float32).reshape(-1, 1)
    out = output(rig, len(a), 1)

    run(rig, WIDE[name], "nn", a, np.ones((1, 1), np.float32), out)

    np.testing.assert_array_equal(out.get(), TWIN[name](a).astype(np.float32))


def test_tf32_keeps_infinity_and_nan(rig: Rig) -> None:
    words = np.array([0x7F800000, 0xFF800000, 0x7FFFFFFF, 0x7FC00000], np.uint32)
    a, out = words.view(np.float32).reshape(4, 1), output(rig, 4, 1)

    run(rig, WIDE["tf32"], "nn", a, np.ones((1, 1), np.float32), out)

    np.testing.assert_array_equal(out.get(), a)


@pytest.mark.parametrize("types", [*WIDE.values(), BF16_OUT], ids=str)
def test_repeats_bit_for_bit(rig: Rig, types: Types) -> None:
    a, b = normal(0, 100, 700), normal(1, 700, 90)
    runs = []
    for _ in range(3):
        out = output(rig, 100, 90, dtype=np.float32 if types.out == "float" else np.uint16)
        run(rig, types, "nt", a, b, out, chunk=200)
        runs.append(out.get())
    assert_same_bits(runs[0], runs[1])
    assert_same_bits(runs[0], runs[2])


def test_bfloat16_operands_may_start_at_any_element(rig: Rig) -> None:
    """The kernel reads one by one what does not begin at a multiple of 8 bytes."""
    flat, b = normal(0, 1 + 64 * 64), normal(1, 64, 64)
    bits = (to_bfloat16(flat).view(np.uint32) >> 16).astype(np.uint16)
    right = (to_bfloat16(b).view(np.uint32) >> 16).astype(np.uint16)
    out = output(rig, 64, 64)

    launch(
        rig, WIDE["bf16"], "nn", out, rig.put(bits).address + 2, rig.put(right).address, 64,
        accumulate=False, chunk=64,
    )  # fmt: skip

    want, error = exact(to_bfloat16(flat[1:]).reshape(64, 64), to_bfloat16(b))
    assert (np.abs(out.get() - want) <= error).all()


def test_no_depth_is_a_zero_product(rig: Rig) -> None:
    out = output(rig, 3, 5, dtype=np.uint16)
    run(rig, BF16_OUT, "nn", np.zeros((3, 0), np.float32), np.zeros((0, 5), np.float32), out)
    assert not out.get().any()
