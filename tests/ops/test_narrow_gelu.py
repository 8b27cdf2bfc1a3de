"""GELU for results that are rounded to bfloat16, at every bfloat16 number that there is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lowgraph.ops import BiasGelu
from lowgraph.precision import Precision, bfloat16_bits, bfloat16_values
from tests.ops import twins
from tests.ops.compare import Array, in_place, output
from tests.ops.rounding import BF16, to_bfloat16
from tests.support.rig import Rig

pytestmark = pytest.mark.both

EVERY = np.arange(1 << 16, dtype=np.uint16)
with np.errstate(invalid="ignore"):  # signalling NaN
    NUMBERS = bfloat16_values(EVERY).astype(np.float64)
FINITE = np.isfinite(NUMBERS)
# Gates below 2^-126 are zero: there x is above -14.
FLUSHED = 14 * 2.0**-126


def gelu(x: Array) -> Array:
    """x/2 (1 + tanh u) = x / (1 + exp(-2u)), which does not cancel where u is very negative."""
    with np.errstate(over="ignore"):
        return x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def test_gelu_is_the_nearest_number_or_the_one_beside_it(rig: Rig) -> None:
    pre, active = in_place(rig, EVERY[None]), output(rig, 1, EVERY.size, dtype=np.uint16)
    bias = rig.put(np.zeros(EVERY.size, np.float32))

    BiasGelu(rig.library, Precision.BF16).forward(rig.stream, active, pre, bias, 1, EVERY.size)

    got, want = bfloat16_values(active.get()[0])[FINITE], gelu(NUMBERS[FINITE])
    nearest = to_bfloat16(want)
    error = np.abs(got - want)
    assert (error <= BF16 * np.abs(want) * (1 + 2.0**-5) + FLUSHED).all()
    apart = np.abs(got - nearest) > FLUSHED
    # An error of 2^-16 takes one in 2^-8 / 2^-16 results across the nearest tie.
    assert apart.mean() < 2.0**-8
    rest = bfloat16_values(active.get()[0])[np.isnan(NUMBERS)]
    assert np.isnan(rest).all() and rest.size
    assert np.isposinf(bfloat16_values(active.get()[0])[np.isposinf(NUMBERS)]).all()


def test_the_slope_is_right_to_the_last_bit_of_bfloat16(rig: Rig) -> None:
    one = np.full((1, EVERY.size), bfloat16_bits(1.0), np.uint16)
    dpre = output(rig, 1, EVERY.size, dtype=np.uint16)

    BiasGelu(rig.library, Precision.BF16).backward(
        rig.stream, dpre, rig.put(one), rig.put(EVERY[None]), 1, EVERY.size
    )

    got = bfloat16_values(dpre.get()[0])[FINITE]
    want = twins.gelu_backward(np.ones(FINITE.sum()), NUMBERS[FINITE])
    error = np.abs(got - want)
    # Where the slope crosses zero its terms are of size 1/4: an absolute error there.
    assert (error <= BF16 * np.abs(want) * (1 + 2.0**-5) + 2.0**-22).all()
