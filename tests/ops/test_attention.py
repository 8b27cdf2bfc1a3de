from __future__ import annotations

import numpy as np
import pytest

from lowgraph.errors import ConfigError
from lowgraph.ops import CausalAttention
from tests.ops import twins
from tests.ops.compare import ROUNDOFF, Array, assert_close, assert_same_bits, normal, output, wide
from tests.support.rig import Rig

# batch, heads, length, head_size: below, at and past the tile of 32 rows and the block of 64.
SIZES = [
    (1, 1, 1, 16),
    (2, 3, 31, 16),
    (1, 2, 33, 32),
    (2, 1, 64, 4),
    (1, 2, 129, 64),
    (1, 1, 257, 32),
]
# Scores are dot products of up to 64 terms of size 1, magnified by the exponential; then sums of up
# to 257 products. The twin itself, run in float32, is 12 roundings away.
CLOSE = 40 * ROUNDOFF


def run_both(rig: Rig, heads: int, head_size: int, qkv: Array, dout: Array) -> list[Array]:
    """Return out, lse and dqkv."""
    batch, length, channels = dout.shape
    out, lse = output(rig, *dout.shape), output(rig, batch, heads, length)
    dqkv, delta = output(rig, *qkv.shape), output(rig, batch, heads, length)
    assert CausalAttention.lse_shape(batch, heads, length) == lse.shape
    assert channels == heads * head_size
    ops = CausalAttention(rig.library, head_size)
    packed = rig.put(qkv)
    ops.forward(rig.stream, out, lse, packed, batch, heads, length)
    ops.backward(rig.stream, dqkv, delta, rig.put(dout), packed, out, lse, batch, heads, length)
    delta.get()
    return [out.get(), lse.get(), dqkv.get()]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("batch", "heads", "length", "head_size"), SIZES)
def test_forward_and_backward(
    rig: Rig, batch: int, heads: int, length: int, head_size: int, seed: int
) -> None:
    channels = heads * head_size
    qkv, dout = normal(seed, batch, length, 3 * channels), normal(5, batch, length, channels)

    out, lse, dqkv = run_both(rig, heads, head_size, qkv, dout)

    exact_qkv, exact_dout = wide(qkv, dout)
    want_out, want_lse = twins.attention_forward(exact_qkv, heads)
    want = twins.attention_backward(exact_dout, exact_qkv, heads)
    assert_close(out, want_out, CLOSE, "out")
    assert_close(lse, want_lse, CLOSE, "lse")
    for part, name in enumerate(("dq", "dk", "dv")):
        columns = slice(part * channels, (part + 1) * channels)
        got, wanted = dqkv[..., columns], want[..., columns]
        if length == 1 and part < 2:
            # One query attends to itself only: its gradient is 0, up to the rounding of dout.v.
            assert np.abs(got).max() <= CLOSE * np.abs(dout).max()
        else:
            assert_close(got, wanted, CLOSE, name)


def test_scores_far_from_zero(rig: Rig) -> None:
    """Scores near 400: exponentials overflow unless the peak goes first."""
    qkv, dout = normal(0, 1, 40, 48, scale=10.0), normal(1, 1, 40, 16)

    out, lse, dqkv = run_both(rig, 1, 16, qkv, dout)

    exact_qkv, exact_dout = wide(qkv, dout)
    want_out, want_lse = twins.attention_forward(exact_qkv, 1)
    # A score of 400 is off by some 400 roundings, which the exponential makes relative.
    limit = 400 * 8 * ROUNDOFF
    assert_close(out, want_out, limit, "out")
    assert_close(lse, want_lse, CLOSE, "lse")
    assert_close(dqkv, twins.attention_backward(exact_dout, exact_qkv, 1), limit, "dqkv")


def test_later_tokens_change_nothing_before_them(rig: Rig) -> None:
    qkv, dout = normal(0, 1, 70, 96), normal(1, 1, 70, 32)
    changed = qkv.copy()
    changed[:, 50:] += 1.0

    first, _, _ = run_both(rig, 2, 16, qkv, dout)
    second, _, _ = run_both(rig, 2, 16, changed, dout)

    assert_same_bits(first[:, :50].copy(), second[:, :50].copy())
    assert (first[:, 50:] != second[:, 50:]).any()


def test_repeats_bit_for_bit(rig: Rig) -> None:
    qkv, dout = normal(0, 2, 150, 96), normal(1, 2, 150, 32)
    runs = [run_both(rig, 2, 16, qkv, dout) for _ in range(3)]
    for later in runs[1:]:
        for first, second in zip(runs[0], later, strict=True):
            assert_same_bits(first, second)


@pytest.mark.parametrize("head_size", [0, 6, 68, -4])
def test_a_head_size_it_cannot_run_is_refused(rig: Rig, head_size: int) -> None:
    with pytest.raises(ConfigError, match="multiple of 4 up to 64"):
        CausalAttention(rig.library, head_size)


def test_nothing_to_attend_launches_nothing(rig: Rig) -> None:
    untouched = output(rig, 4)
    ops = CausalAttention(rig.library, 16)

    ops.forward(rig.stream, untouched, untouched, 0, 0, 2, 8)
    ops.backward(rig.stream, untouched, untouched, 0, 0, 0, 0, 2, 2, 0)

    assert np.isnan(untouched.get()).all()
