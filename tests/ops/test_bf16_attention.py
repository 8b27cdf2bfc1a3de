"""Attention over bfloat16 projections, against the float64 twin of the rounded ones."""

from __future__ import annotations

import numpy as np
import pytest

from lowgraph.ops import CausalAttention
from lowgraph.precision import BFLOAT16, Precision, bfloat16_bits, bfloat16_values
from tests.ops import twins
from tests.ops.compare import ROUNDOFF, Array, assert_close, assert_same_bits, normal, output
from tests.ops.rounding import assert_rounded
from tests.support.rig import Rig

# batch, heads, length, head_size: below, at and past the tile of 32 rows and the block of 64.
SIZES = [(1, 1, 1, 16), (2, 3, 31, 16), (1, 2, 33, 32), (2, 1, 64, 4), (1, 1, 257, 32)]
FLOAT = 40 * ROUNDOFF  # what test_attention.py grants, of the largest element


def run(rig: Rig, heads: int, head_size: int, qkv: Array, dout: Array) -> tuple[Array, ...]:
    """Return out, lse and dqkv; qkv and dout are bits."""
    batch, length, _ = dout.shape
    out = output(rig, *dout.shape, dtype=BFLOAT16)
    dqkv = output(rig, *qkv.shape, dtype=BFLOAT16)
    lse, delta = output(rig, batch, heads, length), output(rig, batch, heads, length)
    layer = CausalAttention(rig.library, head_size, precision=Precision.BF16)
    packed = rig.put(qkv)
    layer.forward(rig.stream, out, lse, packed, batch, heads, length)
    layer.backward(rig.stream, dqkv, delta, rig.put(dout), packed, out, lse, batch, heads, length)
    delta.get()
    return out.get(), lse.get(), dqkv.get()


def inputs(batch: int, heads: int, length: int, head_size: int, seed: int) -> tuple[Array, Array]:
    channels = heads * head_size
    shapes = (batch, length, 3 * channels), (batch, length, channels)
    qkv, dout = (bfloat16_bits(normal(seed + n, *shape)) for n, shape in enumerate(shapes))
    return qkv, dout


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("batch", "heads", "length", "head_size"), SIZES)
def test_forward_and_backward(
    rig: Rig, batch: int, heads: int, length: int, head_size: int, seed: int
) -> None:
    qkv, dout = inputs(batch, heads, length, head_size, seed)

    out, lse, dqkv = run(rig, heads, head_size, qkv, dout)

    exact, gradient = (bfloat16_values(bits).astype(np.float64) for bits in (qkv, dout))
    want_out, want_lse = twins.attention_forward(exact, heads)
    assert_rounded(out, want_out, FLOAT * np.abs(want_out).max(), "out")
    assert_close(lse, want_lse, FLOAT, "lse")
    # Backward reads out as it was rounded.
    given = bfloat16_values(out).astype(np.float64)
    want = twins.attention_backward(gradient, exact, heads, given)
    thirds = zip(np.split(dqkv, 3, axis=2), np.split(want, 3, axis=2), "qkv", strict=True)
    for got, wanted, name in thirds:
        # One token sees itself alone: dq and dk are rounding of numbers of the size of dout.
        size = max(np.abs(wanted).max(), np.abs(gradient).max())
        assert_rounded(got, wanted, FLOAT * size, f"d{name}")


def test_repeats_bit_for_bit(rig: Rig) -> None:
    given = inputs(2, 2, 65, 16, 3)
    first, second = (run(rig, 2, 16, *given) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert_same_bits(one, other)


def test_nothing_to_do(rig: Rig) -> None:
    out, lse, dqkv = run(rig, 1, 4, *inputs(0, 1, 5, 4, 0))
    assert not out.size and not lse.size and not dqkv.size
