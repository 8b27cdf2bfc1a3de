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
FORWARD = {"out-projection and norm": 128, "second of the mlp and norm": 512}
BACKWARD = {"qkv and norm, gradient": 384, "first of the mlp and norm, gradient": 512,
            "head and norm, gradient": 256}  # fmt: skip
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
        return self.put(values), values.astype(np.float64)

    def put(self, values: Array) -> Slice:
        """The array on the device."""
        piece = self.bench.pool.take("wide", values.shape)
        upload(piece, values, self.stream)
        return piece

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


def backward(given: Given, depth: int) -> Iterator[Part]:
    """The gradient of a layer's input, and through the norm in front of the layer that of its."""
    bench, s, rows = given.bench, given.stream, given.rows
    (dz, zv), (weight, wv) = given.narrow(rows, depth), given.narrow(depth, C)
    (normed_, xv), (scale, gv) = given.wide(rows, C), given.wide(C)
    zeros = np.zeros((rows, C), np.float32)
    _, *statistics = normed(xv, gv, gv)
    mean, rstd = (given.put(array.astype(np.float32)) for array in statistics)
    dx, dy = given.put(zeros), bench.zeros(rows, C, dtype=np.uint16)
    narrow, chunks = bench.zeros(rows, C, dtype=np.uint16), ops.LayerNorm.chunks(rows).chunks
    partial = bench.zeros(chunks, 2 * C)
    norm, own = (
        ops.LayerNorm(bench.library, precision=BF16),
        ops.FusedLinear(bench.library, rows, C, depth),
    )
    read = normed_, scale, mean, rstd

    def product() -> None:
        own.backward(s, dy, None, None, 0, dz, 0, weight)

    def join() -> None:
        norm.backward(s, dx, partial, dy, *read, rows, C, add_dx=True, narrow=narrow)

    def forget() -> None:
        for piece in (dx, narrow, partial):
            fill_zero(piece, s)

    def check(exact: bool) -> dict[str, float]:
        """exact: dy is not rounded in between."""
        want, both_sums = gradients(zv @ wv, xv, gv, *statistics)
        limit = depth * SUM if exact else ROUND
        found = bench.read(partial).astype(np.float64).sum(axis=0)
        return {"dx": off(bench.read(dx), want, limit, "dx"),
                "narrow": off(bench.read(narrow), want, 2 * ROUND, "narrow"),
                "parameters": off(found, both_sums, limit, "parameters")}  # fmt: skip

    for tile in NormedLinear.TILES:
        layer = NormedLinear(bench.library, rows, depth, tile)

        def fused(layer: NormedLinear = layer) -> None:
            layer.backward(s, dx, narrow, partial, dz, weight, *read, accumulate=True)

        forget()
        fused()
        yield f"one launch, {tile} rows a block", fused, check(exact=True)
    two = both(product, join)
    forget()
    two()
    yield "two launches", two, check(exact=False)
    yield "of these the product", product, {}
    yield "of these the norm", join, {}


def gradients(dy: Array, x: Array, scale: Array, mean: Array, rstd: Array) -> tuple[Array, Array]:
    """A layer norm's gradient of x, and of scale and shift behind each other."""
    hat, g = (x - mean[:, None]) * rstd[:, None], dy * scale
    dx = g - g.mean(axis=1, keepdims=True) - hat * (g * hat).mean(axis=1, keepdims=True)
    return dx * rstd[:, None], np.concatenate([(dy * hat).sum(axis=0), dy.sum(axis=0)])


def rows_of(given: Given) -> Iterator[Row]:
    """Each way of each layer, checked and timed."""
    cases = [*((forward, *case) for case in FORWARD.items())]
    cases += [*((backward, *case) for case in BACKWARD.items())]
    for make, name, depth in cases:
        for what, act, worst in make(given, depth):
            us = given.bench.time(act)
            yield {"case": name, "rows": given.rows, "depth": depth, "what": what, "off": worst,
                   "us": us}  # fmt: skip


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
