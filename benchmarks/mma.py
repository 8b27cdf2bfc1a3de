"""Tensor-core kernels: right first, then how long: python benchmarks/mma.py [--only PART ...].

Microseconds of one call inside a graph that repeats it, from events around its replay; median,
least and most of the replays. Parts:
attention: forward and backward of one layer.
linear: every form of a layer, with each size of tile ("default": what FusedLinear chooses).
torch: what mma_torch.py says of the same sizes, or why there is nothing to say.
Nothing is timed before it has been compared with float64.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from measure import ROOT, spread, time_parts

from lowgraph import driver
from lowgraph.driver import event, graph
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, Slice, download, fill_zero, upload
from lowgraph.ops import FlashAttention, FusedLinear

Row = dict[str, Any]
Array = np.ndarray[Any, np.dtype[Any]]

# preset: batch, heads, length, head size
ATTENTION = {"tiny": (16, 4, 128, 32), "small": (16, 8, 256, 32), "gpt2": (8, 12, 1024, 64)}
# rows, inputs, outputs of the layers of tiny and small: qkv, projection, up, down, vocabulary.
LINEAR = [
    (rows, *sizes)
    for rows, d in ((2048, 128), (4096, 256))
    for sizes in ((d, 3 * d), (d, d), (d, 4 * d), (4 * d, d), (d, 256))
]
ROUND = 2.0**-8  # of one rounding to bfloat16


class Bench:
    """A stream, a pool and kernels; `repeats` calls a graph, replayed `rounds` times."""

    def __init__(self, device: driver.Device, repeats: int, rounds: int) -> None:
        self.device, self.repeats, self.rounds = device, repeats, rounds
        self.stream = driver.stream.create()
        self.pool = PersistentPool(device)
        self.library = Library(device)
        self._events = event.create(timing=True), event.create(timing=True)
        self._random = np.random.default_rng(0)

    def narrow(self, *shape: int) -> tuple[Slice, Array]:
        """Normal bfloat16 numbers on the device, and what they are in float32."""
        bits = self._random.normal(size=shape).astype(np.float32).view(np.uint32) >> 16
        piece = self.pool.take("narrow", shape, np.uint16)
        upload(piece, bits.astype(np.uint16), self.stream)
        return piece, (bits << 16).view(np.float32)

    def zeros(self, *shape: int, dtype: Any = np.float32) -> Slice:
        """A result's place."""
        piece = self.pool.take("zeros", shape, dtype)
        fill_zero(piece, self.stream)
        return piece

    def read(self, piece: Slice) -> Array:
        """What a slice holds, as float32."""
        values = download(piece, self.stream)
        if values.dtype == np.uint16:
            return (values.astype(np.uint32) << 16).view(np.float32)
        return values

    def time(self, act: Callable[[], None]) -> dict[str, float]:
        """Microseconds of one call."""
        act()
        driver.stream.begin_capture(self.stream)
        for _ in range(self.repeats):
            act()
        recording = driver.stream.end_capture(self.stream)
        executable = graph.instantiate(recording)
        found = []
        for _ in range(self.rounds + 3):
            event.record(self._events[0], self.stream)
            graph.launch(executable, self.stream)
            event.record(self._events[1], self.stream)
            driver.stream.synchronize(self.stream)
            found.append(event.elapsed_ms(*self._events) * 1e-3 / self.repeats)
        graph.exec_destroy(executable)
        graph.destroy(recording)
        return spread(found[3:])


def check(got: Array, want: Array, size: Array, roundings: float, what: str) -> float:
    """Roundings to bfloat16 of the sum of its terms' sizes that the worst element is off."""
    worst = float((np.abs(got - want) / (ROUND * size + 1e-30)).max())
    if not worst <= roundings:
        raise SystemExit(f"{what} is wrong: {worst:.2f} roundings off, at most {roundings}")
    return round(worst, 2)


# ---- attention ----
def check_head(
    qkv: Array, dout: Array, out: Array, dqkv: Array, columns: list[slice]
) -> dict[str, float]:
    """Compare one head of one sequence with the formulas in float64."""
    q, k, v = (qkv[:, part].astype(np.float64) for part in columns)
    g, scale = dout[:, columns[0]].astype(np.float64), q.shape[1] ** -0.5
    scores = np.where(np.tri(len(q), dtype=bool), q @ k.T * scale, -np.inf)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    dp = g @ v.T
    ds = p * (dp - (p * dp).sum(axis=1, keepdims=True)) * scale
    size_of_dp = np.abs(g) @ np.abs(v).T
    size = p * (size_of_dp + (p * size_of_dp).sum(axis=1, keepdims=True)) * scale
    worst = {"out": check(out[:, columns[0]], p @ v, p @ np.abs(v), 2, "out")}
    wanted = (ds @ k, ds.T @ q, p.T @ g)
    sizes = (size @ np.abs(k), size.T @ np.abs(q), p.T @ np.abs(g))
    for name, part, want, most in zip(("dq", "dk", "dv"), columns, wanted, sizes, strict=True):
        worst[name] = check(dqkv[:, part], want, most, 4, name)
    return worst


def attention(bench: Bench) -> Iterator[Row]:
    """Forward and backward of each preset's layer, after a look at its first and last head."""
    for name, (batch, heads, length, head) in ATTENTION.items():
        channels = heads * head
        qkv, qkv_values = bench.narrow(batch, length, 3 * channels)
        dout, dout_values = bench.narrow(batch, length, channels)
        out = bench.zeros(batch, length, channels, dtype=np.uint16)
        dqkv = bench.zeros(batch, length, 3 * channels, dtype=np.uint16)
        ops, sizes = FlashAttention(bench.library, head), (batch, heads, length)
        lse, delta = bench.zeros(*sizes), bench.zeros(*sizes)

        def forward() -> None:
            ops.forward(bench.stream, out, lse, qkv, *sizes)  # noqa: B023

        def backward() -> None:
            ops.backward(bench.stream, dqkv, delta, dout, qkv, out, lse, *sizes)  # noqa: B023

        forward()
        backward()
        got_out, got_dqkv = bench.read(out), bench.read(dqkv)
        worst = {}
        for b, h in ((0, 0), (batch - 1, heads - 1)):
            columns = [slice(p * channels + h * head, p * channels + (h + 1) * head)
                       for p in range(3)]  # fmt: skip
            tensors = qkv_values[b], dout_values[b], got_out[b], got_dqkv[b]
            worst[f"{b},{h}"] = check_head(*tensors, columns)
        case = {"part": "attention", "case": name, "roundings_off": worst}
        yield case | {"what": "forward", "us": bench.time(forward)}
        yield case | {"what": "backward", "us": bench.time(backward)}
        for piece in (qkv, dout, out, dqkv, lse, delta):
            bench.pool.give_back(piece)


# ---- linear layers ----
class Layer:
    """Tensors of one layer, and its calls by name."""

    def __init__(self, bench: Bench, rows: int, inputs: int, outputs: int) -> None:
        self.bench, self.sizes = bench, (rows, inputs, outputs)
        (self.x, x), (self.weight, weight) = (
            bench.narrow(rows, inputs),
            bench.narrow(outputs, inputs),
        )
        (self.dy, dy), (self.hidden, _) = bench.narrow(rows, outputs), bench.narrow(rows, inputs)
        self.y, self.dx = (bench.zeros(rows, n, dtype=np.uint16) for n in (outputs, inputs))
        self.active = bench.zeros(rows, outputs, dtype=np.uint16)
        self.bias, self.dbias = bench.zeros(outputs), bench.zeros(outputs)
        self.narrow_bias = bench.zeros(outputs, dtype=np.uint16)
        self.wide, self.dweight = bench.zeros(rows, outputs), bench.zeros(outputs, inputs)
        products = ((x, weight.T), (dy, weight), (dy.T, x))
        self.want = [(a.astype(np.float64) @ b, np.abs(a) @ np.abs(b)) for a, b in products]

    def acts(self, ops: FusedLinear) -> dict[str, Callable[[], None]]:
        """The calls to time; the first and the last are those that `check` looks at."""
        s, room = self.bench.stream, self.bench.zeros(*ops.workspace_shape())
        sums, tensors = (self.dweight, self.dbias, room), (self.dy, self.x, self.weight)
        into, bias, narrow_bias = (self.x, self.weight), self.bias, self.narrow_bias
        return {
            "plain": lambda: ops.forward(s, self.y, *into),
            "wide": lambda: ops.forward_wide(s, self.wide, *into),
            "bias": lambda: ops.forward_bias(s, self.y, *into, narrow_bias),
            "gelu": lambda: ops.forward_gelu(s, self.active, self.y, *into, narrow_bias),
            "residual": lambda: ops.forward_residual(s, self.wide, *into, bias, self.wide),
            "weight alone": lambda: ops.backward(s, None, *sums, *tensors),
            "backward gelu": lambda: ops.backward_gelu(s, self.dx, *sums, *tensors, self.hidden),
            "backward": lambda: ops.backward(s, self.dx, *sums, *tensors),
        }

    def check(self) -> dict[str, float]:
        """Compare y, dx and dweight with float64."""
        names, pieces = ("y", "dx", "dweight"), (self.y, self.dx, self.dweight)
        return {
            name: check(self.bench.read(piece), *want, 1.01, name)
            for name, piece, want in zip(names, pieces, self.want, strict=True)
        }


def linear(bench: Bench) -> Iterator[Row]:
    """All forms of each layer, with each tile."""
    for sizes in LINEAR:
        layer = Layer(bench, *sizes)
        for tile in (None, *FusedLinear.TILES):
            ops = FusedLinear(bench.library, *sizes, tile)
            acts = layer.acts(ops)
            acts["plain"]()
            acts["backward"]()
            case = {"part": "linear", "rows, inputs, outputs": sizes, "tile": tile or "default",
                    "splits": ops.workspace_shape()[0], "roundings_off": layer.check()}  # fmt: skip
            yield case | {"us": {name: bench.time(act)["median"] for name, act in acts.items()}}


def torch(bench: Bench) -> Iterator[Row]:
    """mma_torch.py in a process of its own: two owners of a GPU would time each other's work."""
    command = [sys.executable, str(ROOT / "benchmarks" / "mma_torch.py")]
    command += [str(bench.repeats), str(bench.rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"mma_torch.py failed: {done.stderr[-800:]}")
    yield from json.loads(done.stdout.splitlines()[-1])


PARTS = {"attention": attention, "linear": linear, "torch": torch}


def main() -> int:
    """Run the command line."""
    return time_parts(__doc__ or "", PARTS, Bench, lambda bench, name: PARTS[name](bench))


if __name__ == "__main__":
    sys.exit(main())
