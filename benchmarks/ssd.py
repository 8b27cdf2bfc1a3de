"""Kernels of a Mamba-2 block: right first, then how long each takes: python benchmarks/ssd.py.

At the size of the preset `perception` of the model mamba2, in the columns of the matrices that the
model has. Each layer's results are compared with the slow float64 twins of the tests, then each
kernel it launches is timed by itself: microseconds of one launch inside a graph that repeats it,
median, least and most of the replays. "call" is the whole layer, in a graph that repeats that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from measure import time_parts
from mma import Bench

from lowgraph import ops
from lowgraph.kernels import Kernel
from lowgraph.memory import Slice, upload
from lowgraph.models.mamba2_config import PRESETS
from lowgraph.ops.ssd_tensors import SsdInputs, SsdRows, SsdSaved, SsdSizes, SsdWorkspace
from lowgraph.precision import Precision
from tests.ops import twins_mamba as twins

Row = dict[str, Any]
Array = np.ndarray[Any, np.dtype[Any]]

PRESET = PRESETS["perception"]
CONFIG, SIZES, BATCH = PRESET.model, PRESET.model.mixer, PRESET.batch
LENGTH, ROWS = CONFIG.context, PRESET.batch * CONFIG.context
# Of the largest element: sums of some hundred float32 roundings; with rounded factors, of TF32's.
MOST = {Precision.FP32: 3e-5, Precision.TF32: 1e-2}


class Watched:
    """A kernel that notes its launches while it makes them."""

    def __init__(self, kernel: Kernel, log: list[tuple[str, Callable[[], None]]]) -> None:
        self._kernel, self._log = kernel, log

    def __call__(self, *args: Any, **options: Any) -> None:
        """Launch and note."""
        self._log.append((self._kernel.name, lambda: self._kernel(*args, **options)))
        self._kernel(*args, **options)


def watch(layer: Any, log: list[tuple[str, Callable[[], None]]]) -> Any:
    """Put `Watched` in place of the layer's kernels, and of its parts'."""
    for name, value in list(vars(layer).items()):
        if isinstance(value, Kernel):
            setattr(layer, name, Watched(value, log))
        elif type(value).__module__.startswith("lowgraph.ops"):
            watch(value, log)
    return layer


class Block:
    """The block's tensors: what the model has, filled with normal numbers."""

    def __init__(self, bench: Bench, precision: Precision) -> None:
        self.bench, self.precision = bench, precision
        self.random = np.random.default_rng(0)
        self.log: list[tuple[str, Callable[[], None]]] = []

    def fill(self, *shape: int, mean: float = 0.0, scale: float = 1.0) -> tuple[Slice, Array]:
        """Numbers on the device, and here in float64."""
        values = self.random.normal(mean, scale, shape).astype(np.float32)
        piece = self.bench.pool.take("filled", shape)
        upload(piece, values, self.bench.stream)
        return piece, values.astype(np.float64)

    def rows(
        self, what: str, call: Callable[[], None], wants: list[tuple[Any, Array]]
    ) -> list[Row]:
        """Run, compare, and time the call and its kernels."""
        self.log.clear()
        call()
        kernels = list(self.log)
        worst = max(self.compare(what, got, want) for got, want in wants)
        case = {"layer": what, "precision": str(self.precision), "off": float(f"{worst:.2e}")}
        return [case | {"kernel": "call", "us": self.bench.time(call)}] + [
            case | {"kernel": name, "us": self.bench.time(launch)} for name, launch in kernels
        ]

    def compare(self, what: str, got: Any, want: Array) -> float:
        """How far the worst element is off, as a part of the largest."""
        found = got() if callable(got) else self.bench.read(got)
        worst = float(np.abs(found.reshape(want.shape) - want).max() / np.abs(want).max())
        if not worst <= MOST[self.precision]:
            raise SystemExit(f"{what} is wrong: {worst:.2e} off, {MOST[self.precision]} allowed")
        return worst

    def columns(self, matrix: Slice, first: int, count: int) -> Slice:
        """Columns of a matrix, as a kernel takes them."""
        return matrix.part(first, ((ROWS - 1) * matrix.shape[1] + count,))

    def view(self, matrix: Slice, first: int, count: int) -> Callable[[], Array]:
        """What those columns hold."""
        return lambda: self.bench.read(matrix)[:, first : first + count]


def conv(block: Block) -> Iterator[Row]:
    """The short convolution, on columns of the in-projection."""
    bench, channels, inner = block.bench, SIZES.convolved, SIZES.inner
    layer = watch(ops.CausalConv1d(bench.library, SIZES.conv), block.log)
    projected, wide = block.fill(ROWS, SIZES.projected)
    weight, taps = block.fill(channels, SIZES.conv)
    bias, offset = block.fill(channels)
    dy, g = block.fill(ROWS, channels)
    y, dprojected = bench.zeros(ROWS, channels), bench.zeros(ROWS, SIZES.projected)
    dweight, dbias = bench.zeros(channels, SIZES.conv), bench.zeros(channels)
    partial = bench.zeros(*layer.partial_shape(BATCH, LENGTH, channels))
    x, dx = (block.columns(m, inner, channels) for m in (projected, dprojected))
    sizes, s = (BATCH, LENGTH, channels), bench.stream

    def forward() -> None:
        layer.forward(s, y, x, weight, bias, *sizes, x_row=SIZES.projected)

    def backward() -> None:
        layer.backward(s, dx, partial, dy, x, weight, bias, *sizes, x_row=SIZES.projected)
        layer.backward_parameters(s, dweight, dbias, partial, *sizes)

    values = wide[:, inner : inner + channels].reshape(BATCH, LENGTH, channels)
    yield from block.rows(
        "conv forward", forward, [(y, twins.conv1d_forward(values, taps, offset))]
    )
    want = twins.conv1d_backward(g.reshape(values.shape), values, taps, offset)
    places = block.view(dprojected, inner, channels), dweight, dbias
    yield from block.rows("conv backward", backward, list(zip(places, want, strict=True)))


def ssd(block: Block) -> Iterator[Row]:
    """The state space layer, on columns of the convolution's output."""
    bench, inner, state, heads = block.bench, SIZES.inner, SIZES.state, SIZES.heads
    layer = watch(ops.Ssd(bench.library, block.precision), block.log)
    sizes = SsdSizes(BATCH, LENGTH, heads, SIZES.head_size, state)
    rows = SsdRows(SIZES.convolved, SIZES.convolved, SIZES.projected)
    convolved, packed = block.fill(ROWS, SIZES.convolved)
    projected, wide = block.fill(ROWS, SIZES.projected, mean=-1.0)
    own = [block.fill(heads, scale=0.5) for _ in range(3)]
    dy, g = block.fill(ROWS, inner)
    y, dconvolved = bench.zeros(ROWS, inner), bench.zeros(ROWS, SIZES.convolved)
    dprojected, down = bench.zeros(ROWS, SIZES.projected), [bench.zeros(heads) for _ in range(3)]
    saved = SsdSaved(*(bench.zeros(*shape) for shape in layer.saved_shapes(sizes)))
    space = SsdWorkspace(*(bench.zeros(*shape) for shape in layer.workspace_shapes(sizes)))

    def spread(whole: Slice, steps: Slice, vectors: list[Slice]) -> SsdInputs:
        raw = block.columns(steps, inner + SIZES.convolved, heads)
        x, b, c = (
            block.columns(whole, first, count)
            for first, count in ((0, inner), (inner, state), (inner + state, state))
        )
        return SsdInputs(x, raw, vectors[0], vectors[1], b, c, vectors[2])

    inputs = spread(convolved, projected, [piece for piece, _ in own])
    gradients, s = spread(dconvolved, dprojected, down), bench.stream

    def forward() -> None:
        layer.forward(s, y, saved, inputs, sizes, rows)

    def backward() -> None:
        layer.backward(s, gradients, space, dy, inputs, saved, sizes, rows)

    shape = (BATCH, LENGTH, heads, SIZES.head_size)
    x, b, c = (packed[:, :inner], packed[:, inner : inner + state], packed[:, inner + state :])
    raw = wide[:, inner + SIZES.convolved :].reshape(shape[:3])
    b, c = (part.reshape(BATCH, LENGTH, state) for part in (b, c))
    arrays = [x.reshape(shape), raw, own[0][1], own[1][1], b, c, own[2][1]]
    yield from block.rows("ssd forward", forward, [(y, twins.ssd_forward(*arrays))])
    want = twins.ssd_backward(g.reshape(shape), *arrays)
    places = {
        "dx": block.view(dconvolved, 0, inner), "db": block.view(dconvolved, inner, state),
        "dc": block.view(dconvolved, inner + state, state),
        "draw": block.view(dprojected, inner + SIZES.convolved, heads),
        "ddt_bias": down[0], "da_log": down[1], "dd": down[2],
    }  # fmt: skip
    yield from block.rows("ssd backward", backward, [(places[n], want[n]) for n in places])


def norm(block: Block) -> Iterator[Row]:
    """The gated norm, whose gate is columns of the in-projection."""
    bench, inner = block.bench, SIZES.inner
    layer = watch(ops.GatedRmsNorm(bench.library), block.log)
    (x, values), (weight, scale) = block.fill(ROWS, inner), block.fill(inner)
    (projected, wide), (dy, g) = block.fill(ROWS, SIZES.projected), block.fill(ROWS, inner)
    y, rstd, dx = bench.zeros(ROWS, inner), bench.zeros(ROWS), bench.zeros(ROWS, inner)
    dprojected, dweight = bench.zeros(ROWS, SIZES.projected), bench.zeros(inner)
    partial = bench.zeros(*layer.partial_shape(ROWS, inner))
    s, row = bench.stream, SIZES.projected

    def forward() -> None:
        layer.forward(s, y, rstd, x, projected, weight, ROWS, inner, z_row=row)

    def backward() -> None:
        layer.backward(
            s, dx, dprojected, dweight, partial, dy, x, projected, weight, rstd, ROWS, inner,
            z_row=row,
        )  # fmt: skip

    gate = wide[:, :inner]
    want = twins.gated_norm_forward(values, gate, scale, layer.epsilon)
    yield from block.rows("norm forward", forward, list(zip((y, rstd), want, strict=True)))
    grads = twins.gated_norm_backward(g, values, gate, scale, layer.epsilon)
    places = dx, block.view(dprojected, 0, inner), dweight
    yield from block.rows("norm backward", backward, list(zip(places, grads, strict=True)))


def loop(block: Block) -> Iterator[Row]:
    """The loop of refinements behind the block, whose turns share their weights."""
    bench, width, turns = block.bench, CONFIG.width, CONFIG.loops
    layer = watch(ops.GatedLoop(bench.library, width, block.precision), block.log)
    (x, x_wide), (branch, branch_wide) = block.fill(ROWS, width), block.fill(ROWS, width)
    weight, shared = block.fill(2 * width, width, scale=width**-0.5)
    own = [block.fill(width) for _ in range(2)]
    states, gates = bench.zeros(turns + 1, ROWS, width), bench.zeros(turns, ROWS, 2 * width)
    dh, g = block.fill(ROWS, width)
    sums, partial = [bench.zeros(width) for _ in range(2)], bench.zeros(*layer.partial_shape(ROWS))
    s, biases = bench.stream, [piece for piece, _ in own]

    def forward() -> None:
        layer.forward(s, states, gates, x, branch, weight, *biases, ROWS, turns)

    def backward() -> None:
        layer.backward(s, dh, gates, *sums, partial, weight, ROWS, turns)

    offsets = [offset for _, offset in own]
    wants = [x_wide + branch_wide]
    for _ in range(turns):
        after, _ = twins.gated_update_forward(wants[-1], wants[-1] @ shared.T, *offsets)
        wants.append(after)
    yield from block.rows("loop forward", forward, [(states, np.array(wants))])
    want = g
    for h in reversed(wants[:-1]):
        want = want + twins.gated_update_backward(want, h, h @ shared.T, *offsets) @ shared
    # In place: what is timed afterwards works on its own results, as long as on any numbers.
    yield from block.rows("loop backward", backward, [(dh, want)])


def bias(block: Block) -> Iterator[Row]:
    """A bias's gradient, of the model's width."""
    bench, columns = block.bench, CONFIG.width
    layer = watch(ops.Bias(bench.library), block.log)
    (dy, g), dbias = block.fill(ROWS, columns), bench.zeros(columns)
    partial = bench.zeros(*layer.partial_shape(ROWS, columns))

    def backward() -> None:
        layer.backward(bench.stream, dbias, partial, dy, ROWS, columns)

    yield from block.rows("bias backward", backward, [(dbias, g.sum(axis=0))])


def readout(block: Block) -> Iterator[Row]:
    """The layer that makes one logit a row, by itself and with its loss."""
    bench, width, s = block.bench, CONFIG.width, block.bench.stream
    layer = watch(ops.Readout(bench.library), block.log)
    (x, values), (weight, scale) = block.fill(ROWS, width), block.fill(width, scale=width**-0.5)
    (bias, offset), (targets, t) = block.fill(1), block.fill(ROWS, mean=0.5, scale=0.1)
    y, loss, dx = bench.zeros(ROWS), bench.zeros(1), bench.zeros(ROWS, width)
    dweight, dbias = bench.zeros(width), bench.zeros(1)
    partial = bench.zeros(*layer.partial_shape(ROWS, width))
    losses = bench.zeros(*layer.losses_shape(ROWS), dtype=np.float64)
    room = loss, dx, partial, losses, bench.zeros(1, dtype=np.uint32)

    def forward() -> None:
        layer.forward(s, y, x, weight, bias, ROWS, width)

    def backward() -> None:
        layer.bce_and_gradient(s, *room, x, weight, bias, targets, ROWS, width)
        layer.backward_parameters(s, dweight, dbias, partial, ROWS, width)

    logits = values @ scale + offset
    yield from block.rows("readout forward", forward, [(y, logits)])
    g, mean = twins.bce_backward(logits, t), np.array([twins.bce_forward(logits, t)])
    wants = [(loss, mean), (dx, g[:, None] * scale), (dweight, g @ values)]
    wants.append((dbias, g.sum(keepdims=True)))
    yield from block.rows("readout with loss", backward, wants)


PARTS = {"conv": conv, "ssd": ssd, "norm": norm, "loop": loop, "bias": bias,
         "readout": readout}  # fmt: skip


def rows_of(bench: Bench, name: str) -> Iterator[Row]:
    """A part's rows, in each precision."""
    for precision in MOST:
        yield from PARTS[name](Block(bench, precision))


def main() -> int:
    """Run the command line."""
    return time_parts(__doc__ or "", PARTS, Bench, rows_of)


if __name__ == "__main__":
    sys.exit(main())
