"""Products with the layer norm behind them in one launch, and in two: right first, then how long.

    python benchmarks/normed_products.py [--rows N] [--json F]

Microseconds of one call inside a graph that repeats it (median, least and most of the replays), at
the sizes of a charlm of 128 channels in bfloat16. "one launch": with the tile that is taken, and
with the other. "two launches": the product by the Blas of a run and the norm behind it, together
and each alone. Nothing is timed before it has been compared with float64.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
from charlm_kernels import normed, off
from measure import options, report
from mma import ROUND, Array, Bench, Row

from lowgraph import driver, ops
from lowgraph.blas import Blas
from lowgraph.memory import Slice, fill_zero, upload
from lowgraph.ops import NormedLinear
from lowgraph.precision import Precision

BF16 = Precision.BF16
C = NormedLinear.COLUMNS
FORWARD = {"out-projection": 128, "second of the mlp": 512}
SUM = 2.0**-22  # of a term's size: what an addition of tensor cores cuts off at most
Part = tuple[str, Callable[[], None], dict[str, float]]


class Given:
    """A bench, the number of rows, and tensors of drawn numbers."""

    def __init__(self, bench: Bench, rows: int) -> None:
        self.bench, self.stream, self.rows = bench, bench.stream, rows
        self.blas = Blas(bench.device, bench.library, bench.stream, bench.pool)
        self._random = np.random.default_rng(0)

    def wide(self, *shape: int) -> tuple[Slice, Array]:
        """Normal float32 numbers on the device, and in float64."""
        values = self._random.standard_normal(shape, np.float32)
        piece = self.bench.pool.take("wide", shape)
        upload(piece, values, self.stream)
        return piece, values.astype(np.float64)

    def narrow(self, *shape: int) -> tuple[Slice, Array]:
        """The same in bfloat16."""
        piece, values = self.bench.narrow(*shape)
        return piece, values.astype(np.float64)


def both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    """One behind the other."""

    def act() -> None:
        first()
        second()

    return act


def forward(given: Given, depth: int) -> Iterator[Part]:
    """A product, its bias, the residual and the norm of the sum."""
    bench, s, rows = given.bench, given.stream, given.rows
    (x, xv), (weight, wv) = given.narrow(rows, depth), given.narrow(C, depth)
    (residual, rv), (bias, bv) = given.wide(rows, C), given.wide(C)
    (scale, gv), (shift, hv) = given.wide(C), given.wide(C)
    out, mean, rstd = bench.zeros(rows, C), bench.zeros(rows), bench.zeros(rows)
    y, norm = bench.zeros(rows, C, dtype=np.uint16), ops.LayerNorm(bench.library, precision=BF16)
    written, affine = (out, y, mean, rstd), (scale, shift)

    def product() -> None:
        given.blas.gemm(s, out, x, weight, rows, C, depth, trans_b=True, precision=BF16)

    def join() -> None:
        norm.residual_forward(s, *written, residual, out, bias, *affine, rows, C)

    def forget() -> None:
        for piece in written:
            fill_zero(piece, s)

    def check() -> dict[str, float]:
        exact = rv + (xv @ wv.T + bv)
        want, want_mean, want_rstd = normed(exact, gv, hv)
        sums = depth * SUM
        return {"out": off(bench.read(out), exact, sums, "out"),
                "y": off(bench.read(y), want, ROUND, "y"),
                "mean": off(bench.read(mean), want_mean, sums, "mean"),
                "rstd": off(bench.read(rstd), want_rstd, sums, "rstd")}  # fmt: skip

    for tile in NormedLinear.TILES:
        layer = NormedLinear(bench.library, rows, depth, tile)

        def fused(layer: NormedLinear = layer) -> None:
            layer.forward(s, *written, x, weight, bias, residual, *affine)

        forget()
        fused()
        yield f"one launch, {tile} rows a block", fused, check()
    two = both(product, join)
    forget()
    two()
    yield "two launches", two, check()
    yield "of these the product", product, {}
    yield "of these the norm", join, {}


def rows_of(given: Given) -> Iterator[Row]:
    """Each way of each layer, checked and timed."""
    for name, depth in FORWARD.items():
        for what, act, worst in forward(given, depth):
            us = given.bench.time(act)
            yield {"case": f"{name} and norm", "rows": given.rows, "depth": depth, "what": what,
                   "off": worst, "us": us}  # fmt: skip


def main() -> int:
    """Run the command line."""
    parser = options(__doc__ or "")
    parser.add_argument("--rows", type=int, default=2048, help="default: 2048")
    parser.add_argument("--repeats", type=int, default=50, help="calls a graph (default: 50)")
    parser.add_argument("--rounds", type=int, default=20, help="replays (default: 20)")
    arguments = parser.parse_args()
    device = driver.open_device(arguments.device)
    bench = Bench(device, arguments.repeats, arguments.rounds)
    report(device, list(rows_of(Given(bench, arguments.rows))), arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
