"""Scenarios of what carries a run from step to step: control, optimizer, batches, the loss ring."""

from __future__ import annotations

import ctypes

import numpy as np

from lowgraph.ops.control import control_bytes, new_control, read_control
from lowgraph.ops.grad_norm import STATS_DTYPE, new_stats, read_stats, stats_bytes
from lowgraph.ops.loss_ring import RECORD_DTYPE
from lowgraph.ops.shapes import ceil_div
from tests.check.bugs.bench import Array, Bench, Buffer, Check
from tests.check.bugs.registry import close, scenario
from tests.ops import twins
from tests.ops.compare import normal, wide

SETTINGS = {"total_steps": 100, "warmup_steps": 10, "lr_max": 1e-3}


def _control(bench: Bench, step: int = 1, seed: int = 0) -> Buffer:
    """A control block at `step`, advanced on the device."""
    block = bench.put(control_bytes(new_control(**SETTINGS, seed=seed, step=step - 1)), "control")
    bench.kernel("control.cu", "control_advance")(bench.stream, 1, 1, block)
    return block


@scenario
def control_advance(bench: Bench, fault: str) -> list[Check]:
    """Faults: the block lies 4 bytes off, behind a float; it is an array of NumPy's."""
    data = control_bytes(new_control(**SETTINGS))
    packed = np.concatenate([np.zeros(8, np.uint8), data, np.zeros(9, np.uint8)])
    buffer, offset = bench.empty(packed.size, np.uint8, "arena"), 8
    if fault == "packed behind a float":
        packed, offset = np.roll(packed, -4), 4
    bench.write(buffer, packed)
    address = buffer.address + offset
    if fault == "host struct":
        address = packed.ctypes.data + offset
    bench.kernel("control.cu", "control_advance")(bench.stream, 1, 1, address)
    after = packed if fault == "host struct" else bench.get(buffer)
    bench.sync()
    block = read_control(after[offset : offset + data.size].copy())
    return [Check("step", np.array([block["step"]]), np.array([1])),
            Check("lr", np.array([block["lr"]]), np.array([1e-4]), 1e-6)]  # fmt: skip


@scenario
def adamw(bench: Bench, fault: str) -> list[Check]:
    """Fault: the moments are not set to zero before the first step."""
    n, n_decay = 1157, 601
    param, grad = normal(0, n), normal(1, n)
    device_param, device_grad = bench.put(param, "param"), bench.put(grad, "grad")
    if fault == "moments not zeroed":
        m, v = bench.empty(n, name="m"), bench.empty(n, name="v")
    else:
        m, v = bench.put(np.zeros(n, np.float32), "m"), bench.put(np.zeros(n, np.float32), "v")
    kernel, block = bench.kernel("adamw.cu", "adamw"), _control(bench)
    state = [device_param, m, v]
    stats = bench.put(stats_bytes(new_stats()), "stats")
    launch = (bench.stream, ceil_div(n, 1024), 128)
    kernel(*launch, *state, 0, 0, device_grad, stats, block, n_decay, n)
    zero = np.zeros(n)
    want = twins.adamw(
        *wide(param), zero, zero, *wide(grad), lr=1e-4, beta1=0.9, beta2=0.999, epsilon=1e-8,
        weight_decay=0.01, step=1, n_decay=n_decay,
    )  # fmt: skip
    return close(bench, param=(device_param, want[0]), m=(m, want[1]), v=(v, want[2]))


@scenario
def sgd(bench: Bench, fault: str) -> list[Check]:
    n = 1157
    param, grad = normal(0, n), normal(1, n)
    device_param, block = bench.put(param, "param"), _control(bench)
    stats = bench.put(stats_bytes(new_stats()), "stats")
    kernel = bench.kernel("sgd.cu", "sgd")
    kernel(bench.stream, ceil_div(n, 1024), 128, device_param, 0, bench.put(grad, "grad"), stats,
           block, 0.0, 0, n)  # fmt: skip
    return close(bench, param=(device_param, param - 1e-4 * grad.astype(np.float64)))


@scenario
def grad_norm(bench: Bench, fault: str) -> list[Check]:
    """Three blocks. Fault: the totals are not set to zero before the first step."""
    n, blocks = 6_001, 3
    grad = normal(2, n)
    grad[[0, 3000, n - 1]] = np.nan
    stats = bench.empty(STATS_DTYPE.itemsize, np.uint8, "stats")
    if fault != "totals not zeroed":
        bench.write(stats, np.zeros(STATS_DTYPE.itemsize, np.uint8))
    partial, block = bench.empty((blocks, 2), np.float64, "partial"), _control(bench)
    kernel = bench.kernel("grad_norm.cu", "grad_norm")
    kernel(bench.stream, blocks, 128, stats, partial, bench.put(grad, "grad"), block, n)
    found, (norm, _, _) = read_stats(bench.get(stats)), twins.gradient_norm(grad, 0.0)
    return [Check("norm", np.array([found.norm]), np.array([norm]), 1e-12),
            Check("masked", np.array(found[1:4]), np.array([3, 3, 1]))]  # fmt: skip


@scenario
def accumulate(bench: Bench, fault: str) -> list[Check]:
    """Two micro-batches. Fault: the first one adds as well."""
    n, grads = 2501, [normal(seed, 2501) for seed in (3, 4)]
    total, loss_total = bench.empty(n, name="total"), bench.empty(1, name="loss total")
    loss = bench.put(np.array([1.5], np.float32), "loss")
    kernel = bench.kernel("accumulate.cu", "accumulate")
    for index, grad in enumerate(grads):
        overwrite = index == 0 and fault != "added to nothing"
        kernel(bench.stream, ceil_div(n, 2048), 128, total, loss_total, bench.put(grad, "grad"),
               loss, 0.5, overwrite, n)  # fmt: skip
    want = (grads[0].astype(np.float64) + grads[1]) / 2
    return close(bench, total=(total, want), loss=(loss_total, np.array([1.5])))


def _corpus(size: int) -> Array:
    return np.random.default_rng(3).integers(0, 256, size, np.uint8)


@scenario
def batch_gather(bench: Bench, fault: str) -> list[Check]:
    batch, length, size, seed, step = 3, 129, 300, 5, 7
    corpus = _corpus(size)
    tokens, targets = (bench.empty((batch, length), np.int32, name) for name in ("tokens", "next"))
    bench.kernel("batch.cu", "batch_gather")(
        bench.stream, (ceil_div(length, 128), batch), 128,
        tokens, targets, bench.put(corpus, "corpus"), _control(bench, step, seed),
        0, size, batch, length,
    )  # fmt: skip
    draws = [twins.philox((step, 0, b, 0), (seed, 0)) for b in range(batch)]
    starts = [(draw[1] << 32 | draw[0]) % (size - length) for draw in draws]
    return _windows(bench, tokens, targets, corpus, starts)


@scenario
def batch_windows(bench: Bench, fault: str) -> list[Check]:
    """Fault: the last target is the byte after the corpus."""
    batch, length, size = 2, 129, 265
    corpus, first = _corpus(size), 7 if fault == "window too late" else 6
    tokens, targets = (bench.empty((batch, length), np.int32, name) for name in ("tokens", "next"))
    grid = (ceil_div(length, 128), batch)
    kernel = bench.kernel("batch.cu", "batch_windows")
    data = bench.put(corpus, "corpus")
    places = bench.put(np.array([0, first], np.int64), "places")
    cursor = bench.put(np.array([1], np.int64), "cursor")
    kernel(bench.stream, grid, 128, tokens, targets, data, places, cursor, batch, length)
    padded = np.append(corpus, np.uint8(0))
    return _windows(bench, tokens, targets, padded, [first, first + length])


def _windows(
    bench: Bench, tokens: Buffer, targets: Buffer, corpus: Array, starts: list[int]
) -> list[Check]:
    length = tokens.shape[1]
    want = np.array([corpus[start : start + length] for start in starts], np.int64)
    after = np.array([corpus[start + 1 : start + 1 + length] for start in starts], np.int64)
    return [Check("tokens", bench.get(tokens), want), Check("targets", bench.get(targets), after)]


@scenario
def loss_ring(bench: Bench, fault: str) -> list[Check]:
    """Five slots and the fifth step. Fault: the ring is a plain array of NumPy's."""
    slots, step = 5, 5
    records, address = bench.pinned(slots, RECORD_DTYPE)
    if fault == "plain array":
        records = np.zeros(slots, RECORD_DTYPE)
        address = records.ctypes.data
    ctypes.memset(records.ctypes.data, 0xFF, records.nbytes)
    loss, control = bench.put(np.array([2.5], np.float32), "loss"), _control(bench, step)
    kernel = bench.kernel("loss_ring.cu", "loss_ring_write")
    stats = bench.put(stats_bytes(new_stats()), "stats")
    kernel(bench.stream, 1, 1, address, loss, stats, control, slots)
    bench.sync()
    found = records[step % slots]
    return [Check("step", np.array([found["step"]]), np.array([step])),
            Check("loss", np.array([found["loss"]]), np.array([2.5]))]  # fmt: skip
