"""One product of any precision: its operands on the device, and what it must give."""

from __future__ import annotations

import numpy as np

from lowgraph.blas import Product
from lowgraph.memory import Slice, download, upload
from lowgraph.precision import Precision, bfloat16_bits
from tests.blas.bench import Bench
from tests.ops.compare import ROUNDOFF
from tests.ops.rounding import assert_rounded, to_bfloat16, to_tf32

_ROUNDED = {
    Precision.FP32: lambda values: values,
    Precision.TF32: to_tf32,
    Precision.BF16: to_bfloat16,
}


class TypedProduct:
    """See the module. out holds NaN, or what is added to."""

    def __init__(self, bench: Bench, product: Product, seed: int = 0) -> None:
        self.bench, self.product = bench, product
        m, n, k = product[:3]
        chance = np.random.default_rng(seed + m + n + k)
        a, b, start = (
            chance.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n))
        )
        self.a = self._put("a", a.T if product.trans_a else a)
        self.b = self._put("b", b.T if product.trans_b else b)
        self.start = start if product.accumulate else np.full((m, n), np.nan, np.float32)
        if product.narrow:
            self.start = bfloat16_bits(self.start)
        self.out = bench.pool.take("out", (m, n), self.start.dtype)
        self.poison()
        rounded = _ROUNDED[product.precision]
        left, right = rounded(a).astype(np.float64), rounded(b).astype(np.float64)
        before = start if product.accumulate else 0.0
        self.wanted = left @ right + before
        # TF32: a GPU may round its operands otherwise than to nearest, by two units at most.
        slack = 2.0**-10 * 2 if product.precision is Precision.TF32 else 0.0
        size = np.abs(left) @ np.abs(right)
        self.error = ((k + 1) * ROUNDOFF * 2 + slack) * (size + np.abs(before))

    def poison(self) -> None:
        upload(self.out, self.start, self.bench.rig.stream)

    def run(self, stream: int) -> None:
        self.bench.blas.gemm(
            stream, self.out, self.a, self.b, *self.product[:6], self.product.precision
        )

    def bits(self) -> bytes:
        return download(self.out, self.bench.rig.stream).tobytes()

    def check(self) -> None:
        """Compare what out holds with the exact product of the rounded operands."""
        got = download(self.out, self.bench.rig.stream)
        if self.product.narrow:
            assert_rounded(got, self.wanted, self.error)
            return
        off = np.abs(got - self.wanted)
        assert (off <= self.error).all(), f"{np.max(off - self.error):.2e} beyond the limit"

    def _put(self, name: str, values: np.ndarray) -> Slice:
        if self.product.precision is Precision.BF16:
            values = bfloat16_bits(values)
        piece = self.bench.pool.take(name, values.shape, values.dtype)
        upload(piece, np.ascontiguousarray(values), self.bench.rig.stream)
        return piece
