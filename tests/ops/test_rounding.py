"""bfloat16 numbers as bits: against the slow twin, and against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from lowgraph.precision import BFLOAT16, Precision, bfloat16_bits, bfloat16_values
from tests.ops.compare import Array
from tests.ops.rounding import to_bfloat16


def _numbers(seed: int) -> Array:
    """All magnitudes, ties between neighbours, the ends of the range, and both zeros."""
    chance = np.random.default_rng(seed)
    some = chance.integers(0, 2**32, 20_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    ties = (chance.integers(0, 2**16, 4_000).astype(np.uint32) << 16 | 0x8000).view(np.float32)
    ends = np.array([0.0, -0.0, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, 1.17e-38], np.float32)
    every = np.concatenate([some, ties, ends])
    return every[~np.isnan(every)]


@pytest.mark.parametrize("seed", [0, 1])
def test_bits_are_the_nearest_number(seed: int) -> None:
    numbers = _numbers(seed)
    got = bfloat16_values(bfloat16_bits(numbers))
    np.testing.assert_array_equal(got, to_bfloat16(numbers))
    np.testing.assert_array_equal(np.signbit(got), np.signbit(numbers))


def test_bits_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch", reason="the oracle extra is not installed")
    numbers = _numbers(2)
    theirs = torch.from_numpy(numbers).bfloat16().view(torch.int16).numpy().view(np.uint16)
    np.testing.assert_array_equal(bfloat16_bits(numbers), theirs)


def test_every_value_keeps_its_bits() -> None:
    bits = np.arange(2**16, dtype=np.uint16)
    values = bfloat16_values(bits)
    known = ~np.isnan(values)
    np.testing.assert_array_equal(bfloat16_bits(values)[known], bits[known])
    assert (bfloat16_bits(values)[~known] == 0x7FFF).all(), "a NaN stays one"
    assert known.sum() == 2**16 - 2 * 127


def test_shapes_are_kept_and_other_numbers_are_taken() -> None:
    assert bfloat16_bits(np.zeros((2, 0, 3))).shape == (2, 0, 3)
    assert bfloat16_bits(1.0).shape == () and int(bfloat16_bits(1)) == 0x3F80


def test_a_precision_is_its_word() -> None:
    assert [str(each) for each in Precision] == ["fp32", "tf32", "bf16"]
    assert Precision("bf16") is Precision.BF16
    assert Precision.BF16.operand == BFLOAT16 and Precision.BF16.ctype == "__nv_bfloat16"
    assert {each.operand.name for each in (Precision.FP32, Precision.TF32)} == {"float32"}
