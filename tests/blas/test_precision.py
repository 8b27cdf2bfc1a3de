"""Products in TF32 and bfloat16: right, the same every time, captured, and refused in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowgraph.blas import Product
from lowgraph.errors import ConfigError
from lowgraph.precision import BFLOAT16, Precision
from tests.blas.bench import Bench
from tests.blas.typed import TypedProduct

BF16, TF32 = Precision.BF16, Precision.TF32
# Odd sizes, and one that gemm.cu splits along k.
SIZES = [(1, 1, 1), (3, 5, 7), (65, 33, 130), (40, 24, 700)]
FORMS = [("nn", False, False), ("nt", False, True), ("tn", True, False)]
KINDS: dict[str, dict[str, Any]] = {
    "tf32": {"precision": TF32},
    "tf32 added": {"precision": TF32, "accumulate": True},
    "bf16 to float": {"precision": BF16},
    "bf16 added": {"precision": BF16, "accumulate": True},
    "bf16 to bf16": {"precision": BF16, "narrow": True},
}


def products(kind: str) -> list[Product]:
    return [
        Product(*sizes, left, right, **KINDS[kind]) for sizes in SIZES for _, left, right in FORMS
    ]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_a_product_is_that_of_the_rounded_operands(bench: Bench, kind: str, seed: int) -> None:
    for product in products(kind):
        made = TypedProduct(bench, product, seed)
        made.run(bench.rig.stream)
        made.check()


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bits_twice_and_replayed(bench: Bench, kind: str) -> None:
    wanted = products(kind)
    bench.blas.prepare(wanted)
    assert list(bench.blas.algorithms()) == wanted
    for product in wanted[-3:]:  # the split ones
        made = TypedProduct(bench, product)
        made.run(bench.rig.stream)
        eager = made.bits()
        made.poison()
        made.run(bench.rig.stream)
        assert made.bits() == eager
        step = bench.step(made.run, product.as_call())
        step.prime()
        step.capture()
        made.poison()
        step.replay()
        assert made.bits() == eager


def test_tf32_does_round(bench: Bench) -> None:
    """Without this a backend that ignores the precision would pass: float32 is near enough.

    A large product of even sizes: a GPU may take float32 where tensor cores do not fit.
    """
    rounded, exact = (
        TypedProduct(bench, Product(256, 256, 256, precision=precision))
        for precision in (TF32, Precision.FP32)
    )
    for made in (rounded, exact):
        made.run(bench.rig.stream)
    assert rounded.bits() != exact.bits()


def test_types_are_told_apart(bench: Bench) -> None:
    """Each precision, and each type of out, is a product of its own."""
    same = [Product(4, 4, 8), *(Product(4, 4, 8, **kind) for kind in KINDS.values())]
    bench.blas.prepare(same)
    assert len(bench.blas.algorithms()) == len(same)
    narrow = Product(4, 4, 8, precision=BF16, narrow=True)
    assert narrow.as_call() == "Product(4, 4, 8, narrow=True, precision=Precision.BF16)"
    assert eval(narrow.as_call()) == narrow, "it can be pasted"


def test_memory_of_another_type_is_named(bench: Bench) -> None:
    stream = bench.rig.stream
    wide, other = bench.put("wide", np.ones((4, 4))), bench.put("other", np.ones((4, 4)))
    bits = bench.pool.take("bits", (4, 4), BFLOAT16)
    small = bench.pool.take("small", (2, 4), BFLOAT16)
    gemm = bench.blas.gemm
    with pytest.raises(ConfigError, match=r"a 'wide' is float32, not bfloat16 \(uint16\)"):
        gemm(stream, other, wide, bits, 4, 4, 4, precision=BF16)
    with pytest.raises(ConfigError, match="b 'bits' is uint16, not float32"):
        gemm(stream, other, wide, bits, 4, 4, 4, precision=TF32)
    with pytest.raises(ConfigError, match="a 'small' has 16 bytes, its sizes need 32"):
        gemm(stream, other, small, bits, 4, 4, 4, precision=BF16)
    with pytest.raises(
        ConfigError, match="out is bfloat16 and the operands are tf32: give float32"
    ):
        gemm(stream, bits, wide, wide, 4, 4, 4, precision=TF32)
    with pytest.raises(ConfigError, match="only a float32 out can be added to"):
        gemm(stream, bits, bits, bits, 4, 4, 4, accumulate=True, precision=BF16)


@pytest.mark.parametrize("role", ["out", "a", "b"])
@pytest.mark.parametrize("precision", [TF32, BF16])
def test_a_part_that_begins_anywhere_is_refused(
    bench: Bench, precision: Precision, role: str
) -> None:
    given = {
        name: bench.pool.take(name, (40,), precision.operand).part(int(name == role), (4, 4))
        for name in ("out", "a", "b")
    }
    with pytest.raises(ConfigError, match=f"gemm: {role} '{role}' begins at .*slice of its own"):
        bench.blas.gemm(bench.rig.stream, *given.values(), 4, 4, 4, precision=precision)


@pytest.mark.parametrize(
    ("precision", "words"),
    [
        (Precision.FP32, "float32, no TF32"),
        (TF32, "TF32 operands, float32 sums"),
        (BF16, "bfloat16 operands, float32 sums"),
    ],
)
def test_the_header_line_names_the_precision(
    bench: Bench, precision: Precision, words: str
) -> None:
    assert f"({words}), workspace" in bench.blas.describe(precision)
