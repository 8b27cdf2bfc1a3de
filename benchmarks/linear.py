"""Linear layers by each route, right first, then how long: python benchmarks/linear.py [--json F].

Microseconds of one call inside a graph that repeats it, from events around its replay: median of
the replays, by route ("dx route, dweight route" for gradients); "plain" are the products alone.
Layers are in bfloat16, those of mlp in TF32. "table" is what lowgraph/blas/routes.py takes, "best"
what it should. "refused": routes that do not take the layer, and why. Operands stay in the cache
from call to call, as those of small models do. Before a route is timed its first and last rows are
compared with float64. --device host checks, on a few small layers, but its times say nothing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from measure import options, report
from mma import Bench

from lowgraph import driver
from lowgraph.blas import Blas, Form, Layer, Product, Route, Routes
from lowgraph.blas.routes import choose
from lowgraph.errors import ConfigError, LibraryError
from lowgraph.memory import Slice, download, fill_zero, upload
from lowgraph.precision import BFLOAT16, Precision, bfloat16_bits, bfloat16_values

Row = dict[str, Any]
Array = np.ndarray[Any, np.dtype[Any]]

FORWARD = {"qkv": Form.BIAS, "o": Form.RESIDUAL, "f1": Form.GELU, "f2": Form.RESIDUAL}
BACKWARD = {"f2": Form.BACKWARD_GELU}
# Rows, width and vocabulary, or classes, of each preset. "check", "check-mlp": for the host device.
PRESETS = {
    "check": (96, 32, 64),
    "check-mlp": (33, 32, 10),
    "mlp": (128, 256, 10),
    "tiny": (2048, 128, 256),
    "small": (4096, 256, 256),
    "gpt2": (8192, 768, 50304),
}
WAYS = {
    "library": (Route.LIBRARY, Route.LIBRARY),
    "separate": (Route.SEPARATE, Route.SEPARATE),
    "own": (Route.OWN, Route.OWN),
    "library, separate": (Route.LIBRARY, Route.SEPARATE),
    "separate, library": (Route.SEPARATE, Route.LIBRARY),
}
ENDS = 24  # rows that are checked at each end
# What a result in bfloat16 may be off: rounded after the product, after the bias and after GELU, by
# 2^-8 of itself each; GELU's slope is at most 1.13.
NARROW = 3 * 1.13 * 2.0**-8
# What a sum in float32 may be off, of the sum of its terms' sizes: tensor cores cut additions at
# 2^-22, and cuts that do not cancel are a few tens here.
SUM = 64 * 2.0**-22
# The same of operands in TF32: cuBLAS may cut each at 2^-10 of itself.
TF32 = 2.0**-9


def calls(width: int, vocabulary: int) -> Iterator[tuple[str, Form | None, int, int]]:
    """Layer, form, inputs and outputs; None: a product without a bias."""
    sizes = {"qkv": (width, 3 * width), "o": (width, width), "f1": (width, 4 * width),
             "f2": (4 * width, width)}  # fmt: skip
    for name, shape in sizes.items():
        yield name, FORWARD[name], *shape
        yield name, BACKWARD.get(name, Form.BACKWARD), *shape
    yield "head", None, width, vocabulary
    yield "head", Form.BACKWARD, width, vocabulary


def mlp_calls(width: int, classes: int) -> Iterator[tuple[str, Form, int, int]]:
    """The same of an mlp's hidden layer and head."""
    for form in (Form.RELU, Form.BACKWARD_RELU):
        yield "hidden", form, width, width
    for form in (Form.BIAS, Form.BACKWARD):
        yield "head", form, width, classes


class Timed:
    """A layer's tensors. Numbers are drawn once and repeated: a big layer has 400 million."""

    def __init__(self, bench: Bench, layer: Layer) -> None:
        self.bench, self.layer = bench, layer
        drawn = np.random.default_rng(0).standard_normal((1 << 20) + 7).astype(np.float32)
        self.pieces: list[Slice | None] = []
        self.values: dict[str, Array] = {}
        self.by_role: dict[str, Slice] = {}
        for number, tensor in enumerate(layer.tensors()):
            if tensor is None:
                self.pieces.append(None)
                continue
            piece = bench.pool.take(tensor.role, tensor.shape, tensor.dtype)
            numbers = np.roll(drawn, 7919 * number)
            narrow = tensor.dtype == BFLOAT16
            stored = bfloat16_bits(numbers) if narrow else numbers
            upload(piece, np.resize(stored, tensor.shape), bench.stream)
            exact = bfloat16_values(stored) if narrow else numbers
            self.values[tensor.role] = np.resize(exact, tensor.shape)
            self.pieces.append(piece)
            self.by_role[tensor.role] = piece
        ends = slice(0, ENDS), slice(-ENDS, None)
        self.expected = [(at, list(self.wanted(at))) for at in ends]

    def call(self, blas: Blas) -> Callable[[], None]:
        """The call, ready to be repeated."""
        methods: dict[Form, Callable[..., None]] = {
            Form.BIAS: blas.linear, Form.RELU: blas.linear_relu, Form.GELU: blas.linear_gelu,
            Form.RESIDUAL: blas.linear_residual, Form.BACKWARD: blas.linear_backward,
            Form.BACKWARD_RELU: blas.linear_relu_backward,
            Form.BACKWARD_GELU: blas.linear_gelu_backward,
        }  # fmt: skip
        method = methods[self.layer.form]
        return lambda: method(self.bench.stream, *self.pieces, self.layer.precision)

    def forget(self) -> None:
        """Overwrite the results with zeros."""
        for role, *_ in self.expected[0][1]:
            fill_zero(self.by_role[role], self.bench.stream)

    def check(self) -> float:
        """Compare the ends of each result with float64; the worst error over its limit."""
        worst = 0.0
        for at, results in self.expected:
            for role, want, size, rounded in results:
                inexact = SUM + (TF32 if self.layer.precision is Precision.TF32 else 0.0)
                limit = inexact * size + 1e-30
                if self.by_role[role].dtype == BFLOAT16:
                    limit = limit + NARROW * rounded
                worst = max(worst, float((np.abs(self.read(role, at) - want) / limit).max()))
        return worst

    def read(self, role: str, at: slice) -> Array:
        """Some rows of a result as numbers."""
        piece = self.by_role[role]
        begin, end, _ = at.indices(piece.shape[0])
        row = math.prod(piece.shape[1:])
        part = piece.part(begin * row, (end - begin, *piece.shape[1:]))
        got = download(part, self.bench.stream)
        return bfloat16_values(got) if got.dtype == BFLOAT16 else got

    def wanted(self, at: slice) -> Iterator[tuple[str, Array, Array, Array]]:
        """Each result's rows, the sizes of what was added up, and of what was rounded."""
        v = self.values
        if not self.layer.form.is_backward:
            product, size = multiply(v["x"][at], v["weight"].T)
            sums, size = product + v["bias"], size + np.abs(v["bias"])
            rounded = np.maximum(np.abs(product), np.abs(sums))
            if self.layer.form is Form.BIAS:
                yield "y", sums, size, rounded
            elif self.layer.form is Form.RELU:
                yield "y", np.maximum(sums, 0), size, rounded
            elif self.layer.form is Form.RESIDUAL:
                residual = v["residual"][at]
                yield "out", sums + residual, size + np.abs(residual), rounded
            else:
                yield "hidden", sums, size, rounded
                yield "active", sums * gate(sums), 1.13 * size, rounded
            return
        gelu, dy = self.layer.form is Form.BACKWARD_GELU, v["dy"]
        if self.layer.form is Form.BACKWARD_RELU:
            dy = np.where(v["y"] > 0, dy, 0)
        dx, size = multiply(dy[at], v["weight"])
        if gelu:
            yield "dhidden", dx * slope(v["hidden"][at]), 1.13 * size, np.abs(dx)
        else:
            yield "dx", dx, size, np.abs(dx)
        turned = dy[:, at].T
        yield "dweight", *multiply(turned, v["active" if gelu else "x"]), size[:0]
        if self.layer.biased:
            sizes = np.abs(turned).sum(axis=1)
            yield "dbias", turned.sum(axis=1, dtype=np.float64), sizes, size[:0]

    def close(self) -> None:
        """Give the memory back."""
        for piece in self.by_role.values():
            self.bench.pool.give_back(piece)


def multiply(a: Array, b: Array) -> tuple[Array, Array]:
    """A product in float64, and that of sizes."""
    return a.astype(np.float64) @ b.astype(np.float64), np.abs(a) @ np.abs(b)


def gate(x: Array) -> Array:
    """gelu(x) / x."""
    return np.asarray((1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2)


def slope(x: Array) -> Array:
    """gelu'(x)."""
    s, x = gate(x.astype(np.float64)), x.astype(np.float64)
    return s + x * s * (1 - s) * 2 * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)


def ways(layer: Layer, backend: str) -> Iterator[tuple[str, Routes]]:
    """The routes to try: two of them for gradients."""
    for name, routes in WAYS.items():
        mixed = routes[0] is not routes[1]
        if mixed and not layer.form.is_backward:
            continue
        if backend == "cublas" or Route.LIBRARY not in routes:
            yield name, Routes(*routes)


def time_layer(bench: Bench, blas: Callable[[Any], Blas], layer: Layer) -> Row:
    """Every route of a layer."""
    timed, us, refused, off = Timed(bench, layer), {}, {}, 0.0
    backend = bench.device.blas_backend
    for name, routes in ways(layer, backend):
        with_routes = blas(lambda _, __: routes)  # noqa: B023
        act = timed.call(with_routes)
        timed.forget()
        try:
            act()
        except (LibraryError, ConfigError) as error:
            refused[name] = str(error)
        else:
            worst = timed.check()
            if not worst <= 1:
                raise SystemExit(f"{layer.as_call()} by {name} is wrong: {worst:.2f} limits off")
            off = max(off, worst)
            us[name] = bench.time(act)["median"]
        driver.stream.synchronize(bench.stream)
        with_routes.close()
    timed.close()
    chosen = choose(layer, backend)
    table = next(name for name, routes in WAYS.items() if routes == tuple(chosen))
    best = min(us, key=lambda name: us[name])
    return {"us": us, "table": table, "best": best, "refused": refused, "limits_off": round(off, 3)}


def time_products(bench: Bench, blas: Callable[[Any], Blas], layer: Layer) -> Row:
    """The products of a layer alone: y, dx and dweight."""
    plain, found = blas(choose), {}
    named = {"y": layer.of_y, "dx": layer.of_dx, "dweight": layer.of_dweight}
    for name, product in named.items():
        taken = [bench.pool.take(t.role, t.shape, t.dtype) for t in product.tensors()]
        for piece in taken:
            fill_zero(piece, bench.stream)
        found[name] = bench.time(product_call(plain, bench.stream, product, taken))["median"]
        for piece in taken:
            bench.pool.give_back(piece)
    driver.stream.synchronize(bench.stream)
    plain.close()
    return {"us": found}


def product_call(
    blas: Blas, stream: int, product: Product, taken: list[Slice]
) -> Callable[[], None]:
    """The product, ready to be repeated."""
    return lambda: blas.gemm(stream, *taken, *product[:-1])


def rows_of(bench: Bench, presets: list[str]) -> Iterator[Row]:
    """All layers of the presets."""

    def blas(routes: Any) -> Blas:
        return Blas(bench.device, bench.library, bench.stream, bench.pool, routes=routes)

    for preset in presets:
        rows, width, vocabulary = PRESETS[preset]
        of_mlp = preset.endswith("mlp")
        precision = Precision.TF32 if of_mlp else Precision.BF16
        for name, form, inputs, outputs in (mlp_calls if of_mlp else calls)(width, vocabulary):
            biased = of_mlp or name != "head"
            layer = Layer(form or Form.BIAS, rows, inputs, outputs, precision, biased)
            case = {"preset": preset, "layer": name, "rows, inputs, outputs": layer[1:4]}
            if form is None or not form.is_backward:
                yield case | {"form": "plain"} | time_products(bench, blas, layer)
            if form is not None:
                yield case | {"form": form.value} | time_layer(bench, blas, layer)


def main() -> int:
    """Run the command line."""
    parser = options(__doc__ or "")
    parser.add_argument("--preset", nargs="+", choices=PRESETS, help="default: all, or check")
    parser.add_argument("--repeats", type=int, default=20, help="calls a graph (default: 20)")
    parser.add_argument("--rounds", type=int, default=10, help="replays (default: 10)")
    arguments = parser.parse_args()
    device = driver.open_device(arguments.device)
    on_gpu = device.blas_backend == "cublas"
    on_host = ["check", "check-mlp"]
    presets = arguments.preset or (["mlp", "tiny", "small", "gpt2"] if on_gpu else on_host)
    bench = Bench(device, arguments.repeats, arguments.rounds)
    report(device, list(rows_of(bench, presets)), arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
