from __future__ import annotations

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops import FlashAttention
from tests.hostdev.narrow_floats import BFLOAT16
from tests.ops import twins
from tests.ops.compare import Array, assert_same_bits, normal, output
from tests.support.rig import Rig

pytestmark = pytest.mark.both

# batch, heads, length, head_size: at and around the block of 64 rows, the part of 32 and the warp's
# 16; 257 is past what one backward kernel takes.
SIZES = [
    (2, 2, 1, 32),
    (1, 3, 31, 32),
    (2, 1, 33, 64),
    (1, 2, 64, 16),
    (1, 1, 64, 32),
    (1, 2, 100, 64),
    (1, 1, 257, 32),
    (1, 1, 300, 64),
    (1, 1, 70, 48),
    (1, 1, 97, 80),
    (1, 1, 130, 128),
    (1, 1, 256, 16),
]
HALF_STEP = 2.0**-8  # relative error of one rounding to bfloat16


def bits(array: Array) -> Array:
    return np.asarray(BFLOAT16.bits(array))


def run_both(
    rig: Rig, heads: int, head_size: int, qkv: Array, dout: Array, scale: float | None = None
) -> list[Array]:
    """Return out (float64), lse and dqkv (float64) of bfloat16 bits."""
    batch, length, channels = dout.shape
    out = output(rig, *dout.shape, dtype=np.uint16)
    dqkv = output(rig, *qkv.shape, dtype=np.uint16, name="dqkv")
    lse, delta = (output(rig, batch, heads, length, name=name) for name in ("lse", "delta"))
    assert FlashAttention.lse_shape(batch, heads, length) == lse.shape
    assert channels == heads * head_size
    ops = FlashAttention(rig.library, head_size, scale)
    packed = rig.put(qkv)
    ops.forward(rig.stream, out, lse, packed, batch, heads, length)
    ops.backward(rig.stream, dqkv, delta, rig.put(dout), packed, out, lse, batch, heads, length)
    assert np.isfinite(delta.get()).all()
    return [BFLOAT16.wide(out.get()), lse.get(), BFLOAT16.wide(dqkv.get())]


def assert_near(got: Array, want: Array, size: Array, roundings: float, what: str) -> None:
    """Compare each element within so many roundings of `size`, the sum of its terms' sizes."""
    assert got.shape == want.shape
    error = np.abs(got - want)
    worst = (error / (HALF_STEP * size + 1e-30)).max()
    assert np.isfinite(got).all(), what
    assert worst <= roundings, f"{what}: {worst:.2f} roundings off, at most {roundings}"


def sizes_of_terms(dout: Array, qkv: Array, heads: int) -> tuple[Array, Array]:
    """Return what out and dqkv would be if no two of the terms they sum had cancelled.

    Of ds, p (|dp| + |delta|) is the size: both are sums of products with rounded factors.
    """
    batch, length, channels = dout.shape
    head = channels // heads
    out, dqkv = np.zeros_like(dout), np.zeros_like(qkv)
    for b, h in np.ndindex(batch, heads):
        columns = [slice(part * channels + h * head, part * channels + (h + 1) * head)
                   for part in range(3)]  # fmt: skip
        q, k, v = (qkv[b][:, part] for part in columns)
        g = np.abs(dout[b][:, columns[0]])
        scores = np.where(np.tri(length, dtype=bool), q @ k.T / np.sqrt(head), -np.inf)
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        out[b][:, columns[0]] = p @ np.abs(v)
        dp = g @ np.abs(v).T
        ds = p * (dp + (p * dp).sum(axis=1, keepdims=True)) / np.sqrt(head)
        for part, terms in zip(columns, (ds @ np.abs(k), ds.T @ np.abs(q), p.T @ g), strict=True):
            dqkv[b][:, part] = terms
    return out, dqkv


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("batch", "heads", "length", "head_size"), SIZES)
def test_forward_and_backward(
    rig: Rig, batch: int, heads: int, length: int, head_size: int, seed: int
) -> None:
    channels = heads * head_size
    qkv, dout = (bits(normal(seed + i, batch, length, n * channels)) for i, n in ((0, 3), (9, 1)))

    out, lse, dqkv = run_both(rig, heads, head_size, qkv, dout)

    exact_qkv, exact_dout = BFLOAT16.wide(qkv), BFLOAT16.wide(dout)
    want_out, want_lse = twins.attention_forward(exact_qkv, heads)
    want = twins.attention_backward(exact_dout, exact_qkv, heads)
    out_size, size = sizes_of_terms(exact_dout, exact_qkv, heads)
    # p is rounded once and out once: two roundings of the sum of the terms' sizes, were all to fall
    # the same way; the float32 part is thousands of times smaller.
    assert_near(out, want_out, out_size, 2, "out")
    # The scores are float32 sums of up to 128 products, of which tensor cores cut the ends off.
    np.testing.assert_allclose(lse, want_lse, rtol=0, atol=128 * 2.0**-22)
    # ds is rounded once and dqkv once; delta comes from out, rounded twice by then.
    assert_near(dqkv, want, size, 4, "dqkv")


def test_scores_far_from_zero(rig: Rig) -> None:
    """Scores near 400: exponentials overflow unless the peak goes first."""
    qkv, dout = bits(normal(0, 1, 70, 96, scale=8.0)), bits(normal(1, 1, 70, 32))

    out, lse, dqkv = run_both(rig, 1, 32, qkv, dout)

    exact_qkv, exact_dout = BFLOAT16.wide(qkv), BFLOAT16.wide(dout)
    want_out, want_lse = twins.attention_forward(exact_qkv, 1)
    want = twins.attention_backward(exact_dout, exact_qkv, 1)
    out_size, size = sizes_of_terms(exact_dout, exact_qkv, 1)
    assert np.abs(want_lse).max() > 200
    # A score of 400 is off by 400 * 32 units of 2^-22, which is 1.5 roundings of the exponential.
    assert_near(out, want_out, out_size, 4, "out")
    np.testing.assert_allclose(lse, want_lse, rtol=32 * 2.0**-22)
    assert_near(dqkv, want, size, 8, "dqkv")


@pytest.mark.parametrize("length", [70, 300])
def test_a_scale_of_ones_own(rig: Rig, length: int) -> None:
    """Attention with another scale is attention over queries scaled by a power of two."""
    qkv, dout = BFLOAT16.wide(bits(normal(0, 1, length, 96))), bits(normal(1, 1, length, 32))
    scaled = qkv.copy()
    scaled[..., :32] *= 4

    plain = run_both(rig, 1, 32, bits(scaled), dout, 0.125)
    other = run_both(rig, 1, 32, bits(qkv), dout, 0.5)

    other[2][..., :32] /= 4  # the gradient of the scaled queries
    for first, second in zip(plain, other, strict=True):
        assert_same_bits(first, second)


def test_later_tokens_change_nothing_before_them(rig: Rig) -> None:
    qkv, dout = bits(normal(0, 1, 150, 96)), bits(normal(1, 1, 150, 32))
    changed = qkv.copy()
    changed[:, 101:] = bits(normal(2, 1, 49, 96))

    first, first_lse, _ = run_both(rig, 1, 32, qkv, dout)
    second, second_lse, _ = run_both(rig, 1, 32, changed, dout)

    assert_same_bits(first[:, :101].copy(), second[:, :101].copy())
    assert_same_bits(first_lse[..., :101].copy(), second_lse[..., :101].copy())
    assert (first[:, 101:] != second[:, 101:]).any()


@pytest.mark.parametrize("length", [150, 270])
def test_repeats_bit_for_bit(rig: Rig, length: int) -> None:
    qkv, dout = bits(normal(0, 1, length, 192)), bits(normal(1, 1, length, 64))
    runs = [run_both(rig, 2, 32, qkv, dout) for _ in range(3)]
    for later in runs[1:]:
        for first, second in zip(runs[0], later, strict=True):
            assert_same_bits(first, second)


@pytest.mark.parametrize("length", [20, 300])
def test_the_rest_of_the_last_tile_counts_for_nothing(rig: Rig, length: int) -> None:
    """It holds what another block left: here an lse near -1000, and e^1000 is infinite."""
    qkv = normal(0, 1, 256 + length, 96) / 16 + np.repeat([-13.0, 13.0, 1.0], 32)
    qkv, dout = bits(qkv), bits(normal(1, 1, 256 + length, 32))
    run_both(rig, 1, 32, qkv[:, :256].copy(), dout[:, :256].copy())
    qkv, dout = qkv[:, 256:].copy(), dout[:, 256:].copy()

    out, lse, dqkv = run_both(rig, 1, 32, qkv, dout)

    exact_qkv, exact_dout = BFLOAT16.wide(qkv), BFLOAT16.wide(dout)
    want_out, want_lse = twins.attention_forward(exact_qkv, 1)
    want = twins.attention_backward(exact_dout, exact_qkv, 1)
    out_size, size = sizes_of_terms(exact_dout, exact_qkv, 1)
    assert want_lse.max() < -800
    # A score of -1000 is off by 1000 * 32 units of 2^-22, which is 2 roundings of the exponential.
    assert_near(out, want_out, out_size, 4, "out")
    np.testing.assert_allclose(lse, want_lse, rtol=32 * 2.0**-22)
    assert_near(dqkv, want, size, 8, "dqkv")


def test_heads_and_sequences_do_not_meet(rig: Rig) -> None:
    """Each head of each sequence alone gives the bits it has beside the others."""
    qkv, dout = bits(normal(0, 2, 65, 96)), bits(normal(1, 2, 65, 32))
    whole = run_both(rig, 2, 16, qkv, dout)
    for b, h in np.ndindex(2, 2):
        columns = slice(16 * h, 16 * h + 16)
        own = qkv[b : b + 1].reshape(1, 65, 3, 32)[..., columns].reshape(1, 65, 48)
        alone = run_both(rig, 1, 16, own, dout[b : b + 1, :, columns].copy())
        assert_same_bits(whole[0][b, :, columns].copy(), alone[0][0])
        assert_same_bits(whole[1][b, h], alone[1][0, 0])
        part = whole[2][b].reshape(65, 3, 32)[..., columns].reshape(65, 48)
        assert_same_bits(part.copy(), alone[2][0])


@pytest.mark.parametrize("head_size", [0, 8, 24, 144, -16])
def test_a_head_size_it_cannot_run_is_refused(rig: Rig, head_size: int) -> None:
    with pytest.raises(ConfigError, match="multiple of 16 up to 128"):
        FlashAttention(rig.library, head_size)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan")])
def test_a_scale_it_cannot_run_is_refused(rig: Rig, scale: float) -> None:
    with pytest.raises(ConfigError, match="scale must be above 0"):
        FlashAttention(rig.library, 32, scale)


def test_nothing_to_attend_launches_nothing(rig: Rig) -> None:
    untouched, numbers = output(rig, 4, dtype=np.uint16), output(rig, 4)
    ops = FlashAttention(rig.library, 16)

    for batch, heads, length in ((0, 2, 8), (2, 0, 8), (2, 2, 0)):
        ops.forward(rig.stream, untouched, numbers, 0, batch, heads, length)
        ops.backward(rig.stream, untouched, numbers, 0, 0, 0, 0, batch, heads, length)

    assert (untouched.get() == 0xFFFF).all()
    assert np.isnan(numbers.get()).all()
