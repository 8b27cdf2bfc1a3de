"""What every launcher promises: it launches, and does nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from lowgraph import ops
from lowgraph.driver import gate
from lowgraph.ops.control import control_bytes, new_control
from lowgraph.ops.grad_norm import new_stats, stats_bytes
from lowgraph.ops.random_state import Draws
from lowgraph.ops.ssd_tensors import SsdInputs, SsdSaved, SsdSizes, SsdWorkspace
from lowgraph.precision import Precision
from tests.support.rig import Rig

B, T, C, V, HEADS = 2, 5, 8, 7, 2
ROWS = B * T
CORPUS = 50


class Buffers:
    """Named float32 buffers, made as they are asked for."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig

    def __call__(self, *shape: int) -> Any:
        return self.rig.put(np.zeros(shape, np.float32))

    def ints(self, *shape: int) -> Any:
        return self.rig.put(np.zeros(shape, np.int32))


Call = Callable[[], None]


def model_calls(rig: Rig, f: Buffers) -> dict[str, tuple[Call, int]]:
    """Return each launcher of a layer ready to call, and how many launches it documents."""
    lib, s = rig.library, rig.stream
    norm, bias, gelu, residual = (
        make(lib) for make in (ops.LayerNorm, ops.Bias, ops.BiasGelu, ops.Residual)
    )
    relu = ops.BiasRelu(lib)
    attention, embedding = ops.CausalAttention(lib, C // HEADS), ops.Embedding(lib, V)
    entropy = ops.CrossEntropy(lib)
    x, y, row, weight = f(ROWS, C), f(ROWS, C), f(ROWS), f(C)
    tokens, targets = f.ints(B, T), f.ints(ROWS)
    partial, packed, lse, places = f(64, 2, C), f(ROWS, 3 * C), f(B, HEADS, T), f.ints(2 * C)
    lists = f.ints(2, ROWS), f.ints(V + 1), f(ROWS // 8 + 1, 2, C)
    logits, tables = f(ROWS, V), (f(V, C), f(T, C))
    return wide_calls(rig, f, norm, entropy) | {
        "norm forward": (lambda: norm.forward(s, y, row, row, x, weight, weight, ROWS, C), 1),
        "norm forward, residual": (
            lambda: norm.residual_forward(s, y, y, row, row, x, x, *[weight] * 3, ROWS, C),
            1,
        ),
        "norm forward, embedding": (
            lambda: norm.embedding_forward(
                s, y, y, row, row, tokens, *tables, weight, weight, ROWS, T, C
            ),
            1,
        ),
        "norm backward": (
            lambda: norm.backward(s, y, partial, x, x, weight, row, row, ROWS, C),
            1,
        ),
        "norm parameters": (lambda: norm.parameters(s, partial, partial, places, ROWS, 2 * C), 1),
        "bias forward": (lambda: bias.forward(s, y, weight, ROWS, C), 1),
        "bias backward": (lambda: bias.backward(s, weight, partial, x, ROWS, C), 2),
        "gelu forward": (lambda: gelu.forward(s, y, x, weight, ROWS, C), 1),
        "gelu backward": (lambda: gelu.backward(s, y, x, x, ROWS, C), 1),
        "relu forward": (lambda: relu.forward(s, y, weight, ROWS, C), 1),
        "relu backward": (lambda: relu.backward(s, y, weight, x, ROWS, C), 1),
        "residual add": (lambda: residual.add(s, y, x, x, ROWS * C), 1),
        "residual bias_add": (lambda: residual.bias_add(s, y, x, x, weight, ROWS, C), 1),
        "attention forward": (lambda: attention.forward(s, y, lse, packed, B, HEADS, T), 1),
        "attention backward": (
            lambda: attention.backward(s, packed, lse, x, packed, y, lse, B, HEADS, T),
            2,
        ),
        "embedding forward": (lambda: embedding.forward(s, x, tokens, *tables, B, T, C), 1),
        "embedding backward": (
            lambda: embedding.backward(s, *tables, *lists, x, tokens, B, T, C),
            3,
        ),
        "embedding backward, no positions": (
            lambda: embedding.backward(s, tables[0], None, *lists, x, tokens, B, T, C),
            3,
        ),
        "entropy forward": (lambda: entropy.forward(s, row, logits, targets, ROWS, V), 1),
        "entropy both": (
            lambda: entropy.forward_backward(s, row, logits, targets, ROWS, V, 0.1),
            1,
        ),
        "entropy mean": (lambda: entropy.mean(s, row, row, ROWS), 1),
    }


def wide_calls(
    rig: Rig, f: Buffers, norm: ops.LayerNorm, entropy: ops.CrossEntropy
) -> dict[str, tuple[Call, int]]:
    """Those of wide rows, whose kernels the first call loads."""
    s, row = rig.stream, f(ROWS)
    many, broad, one = f(1, 4096), f(1, 260), f.ints(1)
    wide: dict[str, tuple[Call, int]] = {
        "entropy both, wide": (
            lambda: entropy.forward_backward(s, row, many, one, 1, 4096, 0.1),
            1,
        ),
        "norm forward, wide": (
            lambda: norm.forward(s, many, row, row, broad, broad, broad, 1, 260),
            1,
        ),
    }
    for call, _ in wide.values():
        call()  # the first one loads its kernels
    return wide


def run_calls(rig: Rig, f: Buffers) -> dict[str, tuple[Call, int]]:
    """Return the launchers of a run's state, alike."""
    lib, s = rig.library, rig.stream
    control = rig.put(control_bytes(new_control(total_steps=9, lr_max=1.0)))
    corpus = rig.put(np.zeros(CORPUS, np.uint8))
    tokens, targets, flat, row, ring = f.ints(B, T), f.ints(B, T), f(40), f(1), f(32)
    places, cursor = rig.put(np.array([3], np.int64)), rig.put(np.zeros(1, np.int64))
    batch, adamw = ops.BatchGather(lib), ops.AdamW(lib)
    staged, evaluation = ops.StagedCopy(lib), ops.EvaluationRecord(lib)
    advance, loss_ring, fill = ops.Control(lib), ops.LossRing(lib), ops.Fill(lib)
    accumulate, norm = ops.Accumulate(lib), ops.GradientNorm(lib)
    sgd, heavy = ops.Sgd(lib), ops.Sgd(lib, momentum=0.9)
    full = ops.AdamW(lib, ema=True, shadow=True)
    stats, partial = rig.put(stats_bytes(new_stats())), rig.put(np.zeros((1, 2)))
    half, cast = rig.put(np.zeros(40, np.uint16)), ops.Cast(lib)
    dropout, saved = ops.Dropout(lib), rig.put(np.zeros(2, np.uint64))
    draws = Draws(rig.put(np.zeros(2, np.uint64)).address)
    return {
        "cast": (lambda: cast.forward(s, half, flat, 40), 1),
        "control": (lambda: advance.advance(s, control), 1),
        "batch random": (
            lambda: batch.random(s, tokens, targets, corpus, control, CORPUS, B, T),
            1,
        ),
        "batch windows": (
            lambda: batch.windows(s, tokens, targets, corpus, places, cursor, B, T),
            1,
        ),
        "staged copy": (lambda: staged.forward(s, flat, ring, cursor, 4, 4), 1),
        "evaluation record": (lambda: evaluation.write(s, flat, cursor, ring, 40), 1),
        "adamw": (lambda: adamw.step(s, flat, flat, flat, flat, stats, control, 10, 40), 1),
        "adamw with all": (
            lambda: full.step(
                s, flat, flat, flat, flat, stats, control, 10, 40, ema=flat, shadow=half
            ),
            1,
        ),
        "sgd": (lambda: sgd.step(s, flat, flat, stats, control, 10, 40), 1),
        "sgd with momentum": (lambda: heavy.step(s, flat, flat, stats, control, 10, 40, m=flat), 1),
        "adamw refresh": (lambda: full.refresh(s, half, flat, 40), 1),
        "gradient norm": (lambda: norm.measure(s, stats, partial, flat, control, 40), 1),
        "accumulate": (
            lambda: accumulate.add(s, flat, row, flat, row, 0.5, 40, overwrite=False),
            1,
        ),
        "loss ring": (lambda: loss_ring.write(s, ring, flat, stats, control, 4), 1),
        "dropout forward": (
            lambda: dropout.forward(s, flat, saved, flat, draws, 0.5, 40),
            1,
        ),
        "dropout backward": (lambda: dropout.backward(s, flat, flat, saved, 0.5, 40), 1),
        "fill": (lambda: fill.forward(s, flat, 1.0, 40), 1),
    }


def mamba_calls(rig: Rig, f: Buffers) -> dict[str, tuple[Call, int]]:
    """Return the launchers of a Mamba-2 block, alike."""
    lib, s = rig.library, rig.stream
    conv, norm = ops.CausalConv1d(lib), ops.GatedRmsNorm(lib)
    many = f(2049)
    bce, ssd, sizes = ops.BinaryCrossEntropy(lib), ops.Ssd(lib), SsdSizes(B, T, HEADS, C, 3)
    x, y, z, row, weight, taps = f(B, T, C), f(B, T, C), f(B, T, C), f(ROWS), f(C), f(C, 4)
    rms, update, gates = ops.RmsNorm(lib), ops.GatedUpdate(lib), f(ROWS, 2 * C)
    partial, flat = f(64, 5, C), f(40)
    steps, head, big = (f(B, T, HEADS), f(HEADS), f(B, T, HEADS, C))
    inputs = SsdInputs(big, steps, head, head, f(B, T, 3), f(B, T, 3), head)
    grads = SsdInputs(*(f(*rig.get(buffer).shape) for buffer in inputs))
    saved = SsdSaved(*(f(*shape) for shape in ssd.saved_shapes(sizes)))
    space = SsdWorkspace(*(f(*shape) for shape in ssd.workspace_shapes(sizes)))
    return {
        "conv1d forward": (lambda: conv.forward(s, y, x, taps, weight, B, T, C), 1),
        "conv1d backward": (
            lambda: conv.backward(s, z, partial, y, x, taps, weight, B, T, C),
            1,
        ),
        "conv1d backward_parameters": (
            lambda: conv.backward_parameters(s, taps, weight, partial, B, T, C),
            1,
        ),
        "gated forward": (lambda: norm.forward(s, y, row, x, z, weight, ROWS, C), 1),
        "gated backward": (
            lambda: norm.backward(s, y, z, weight, partial, x, x, x, weight, row, ROWS, C),
            2,
        ),
        "rms forward": (lambda: rms.forward(s, y, row, x, weight, ROWS, C), 1),
        "rms add_forward": (lambda: rms.add_forward(s, y, row, z, x, x, weight, ROWS, C), 1),
        "rms backward": (
            lambda: rms.backward(s, y, weight, partial, x, x, weight, row, ROWS, C),
            3,
        ),
        "update forward": (lambda: update.forward(s, y, gates, x, weight, weight, ROWS, C), 1),
        "update backward": (lambda: update.backward(s, gates, x, ROWS, C), 1),
        "update bias_backward": (
            lambda: update.bias_backward(s, weight, weight, partial, gates, ROWS, C),
            2,
        ),
        "bce forward": (lambda: bce.forward(s, row, partial, flat, flat, 40), 1),
        "bce forward, long": (lambda: bce.forward(s, row, partial, many, many, 2049), 2),
        "bce with gradient": (
            lambda: bce.forward(s, row, partial, flat, flat, 40, dlogits=flat, scale=1.0),
            1,
        ),
        "ssd forward": (lambda: ssd.forward(s, big, saved, inputs, sizes), 1),
        "ssd backward": (lambda: ssd.backward(s, grads, space, big, inputs, saved, sizes), 2),
    }


def perception_calls(rig: Rig, f: Buffers) -> dict[str, tuple[Call, int]]:
    """Return the launchers of what the model mamba2 has beside its block, alike."""
    lib, s = rig.library, rig.stream
    x, y, row, weight, flat = f(B, T, C), f(B, T, C), f(ROWS), f(C), f(40)
    readout, partial = ops.Readout(lib), f(64, 2, C)
    room = f(1), y, partial, rig.put(np.zeros(64)), rig.put(np.zeros(1, np.uint32))
    loop, turned = ops.GatedLoop(lib, 8, Precision.FP32), f(2, 16, 8)
    loop_gates, loop_bias, loop_weight = f(1, 16, 16), f(8), f(16, 8)
    return {
        "readout forward": (lambda: readout.forward(s, row, x, weight, flat, ROWS, C), 1),
        "readout bce_and_gradient": (
            lambda: readout.bce_and_gradient(s, *room, x, weight, flat, row, ROWS, C),
            1,
        ),
        "readout backward_parameters": (
            lambda: readout.backward_parameters(s, weight, flat, partial, ROWS, C),
            1,
        ),
        "loop forward": (
            lambda: loop.forward(
                s, turned, loop_gates, turned, turned, loop_weight, loop_bias, loop_bias, 16, 1
            ),
            1,
        ),
        "loop backward": (
            lambda: loop.backward(
                s, turned, loop_gates, loop_bias, loop_bias, partial, loop_weight, 16, 1
            ),
            2,
        ),
    }


def bias_calls(rig: Rig, f: Buffers) -> dict[str, tuple[Call, int]]:
    """Return the launchers of the sums of several layers' biases, alike."""
    layer, s = ops.BiasSums(rig.library), rig.stream
    dy, partial, places = f(ROWS, C), f(1, 2 * C), f.ints(2 * C)
    return {
        "biassums pair": (lambda: layer.pair(s, partial, dy, C, dy, C, ROWS, 2 * C), 1),
        "biassums finish": (lambda: layer.finish(s, partial, partial, places, ROWS, 2 * C), 1),
    }


def normed_calls(rig: Rig, f: Buffers) -> dict[str, tuple[Call, int]]:
    """Return the launchers of layers with a norm behind them, alike."""
    columns, s = ops.NormedLinear.COLUMNS, rig.stream
    layer, x = ops.NormedLinear(rig.library, ROWS, C), rig.put(np.zeros((ROWS, C), np.uint16))
    y, weight = (rig.put(np.zeros((rows, columns), np.uint16)) for rows in (ROWS, C))
    out, row, sums = f(ROWS, columns), f(columns), f(1, 2 * columns)
    return {
        "normedlinear forward": (
            lambda: layer.forward(s, out, y, row, row, x, weight, row, out, row, row),
            1,
        ),
        "normedlinear backward": (
            lambda: layer.backward(s, out, y, sums, x, weight, out, row, row, row),
            1,
        ),
    }


def tensor_core_calls(rig: Rig, f: Buffers) -> dict[str, tuple[Call, int]]:
    """Return the launchers of tensor-core kernels, alike."""
    lib, s, length = rig.library, rig.stream, 257  # past what one backward kernel takes

    def narrow(*shape: int) -> Any:
        return rig.put(np.zeros(shape, np.uint16))

    attention = ops.FlashAttention(lib, 16)
    packed, out, lse = narrow(257, 96), narrow(257, 32), f(1, HEADS, 257)
    linear, long = ops.FusedLinear(lib, ROWS, C, 16), ops.FusedLinear(lib, 300, C, 16)
    x, y, weight = narrow(300, C), narrow(300, 16), narrow(16, C)
    wide, bias, dweight, room = f(300, 16), f(16), f(16, C), f(*long.workspace_shape())
    sums, narrow_bias = (dweight, bias, room), narrow(16)
    exact = ops.LinearTf32(lib, ROWS, C, 16)
    fx, fy, fw, grads = f(ROWS, C), f(ROWS, 16), f(16, C), (f(ROWS, C), dweight, bias)
    return {
        "lineartf32 forward": (lambda: exact.forward(s, fy, fx, fw, bias), 1),
        "lineartf32 forward relu": (lambda: exact.forward_relu(s, fy, fx, fw, bias), 1),
        "lineartf32 backward": (lambda: exact.backward(s, *grads, fy, fx, fw), 1),
        "lineartf32 backward relu": (lambda: exact.backward_relu(s, *grads, wide, fx, fw, fy), 1),
        "flashattention forward": (
            lambda: attention.forward(s, out, lse, packed, 1, HEADS, length),
            1,
        ),
        "flashattention backward": (
            lambda: attention.backward(s, packed, lse, out, packed, out, lse, 1, HEADS, 256),
            1,
        ),
        "flashattention backward, long": (
            lambda: attention.backward(s, packed, lse, out, packed, out, lse, 1, HEADS, length),
            2,
        ),
        "fusedlinear forward": (lambda: linear.forward(s, y, x, weight), 1),
        "fusedlinear wide": (lambda: linear.forward_wide(s, wide, x, weight), 1),
        "fusedlinear bias": (lambda: linear.forward_bias(s, y, x, weight, narrow_bias), 1),
        "fusedlinear gelu": (lambda: linear.forward_gelu(s, y, y, x, weight, narrow_bias), 1),
        "fusedlinear residual": (
            lambda: linear.forward_residual(s, wide, x, weight, bias, wide),
            1,
        ),
        "fusedlinear backward": (lambda: linear.backward(s, x, *sums, y, x, weight), 1),
        "fusedlinear backward gelu": (
            lambda: linear.backward_gelu(s, x, *sums, y, x, weight, x),
            1,
        ),
        "fusedlinear backward, added": (
            lambda: linear.backward(s, x, *sums, y, x, weight, accumulate=True),
            2,
        ),
        "fusedlinear backward, long": (lambda: long.backward(s, x, *sums, y, x, weight), 2),
        "fusedlinear backward, dx": (
            lambda: long.backward(s, x, None, None, room, y, x, weight),
            1,
        ),
    }


@pytest.fixture
def seen() -> Iterator[list[str]]:
    """Names of the driver calls made through the gate, once `gate.observer` is set to it."""
    names: list[str] = []
    yield names
    gate.observer = None


MAKERS = (
    model_calls, bias_calls, run_calls, mamba_calls, perception_calls, tensor_core_calls,
    normed_calls,
)  # fmt: skip


@pytest.mark.parametrize("make", MAKERS)
def test_a_launcher_only_launches(rig: Rig, seen: list[str], make: Any) -> None:
    """No allocation, copy or sync: any other driver call would break or slow a captured step."""
    for name, (call, launches) in make(rig, Buffers(rig)).items():
        seen.clear()
        gate.observer = lambda call_name, args, code: seen.append(call_name)
        call()
        gate.observer = None
        assert seen == ["cuLaunchKernelEx"] * launches, name
    rig.sync()


def test_every_public_launcher_is_in_the_test_above(rig: Rig) -> None:
    f = Buffers(rig)
    tested = " ".join(name for make in MAKERS for name in make(rig, f))
    words = {"CausalAttention": "attention", "LayerNorm": "norm", "CrossEntropy": "entropy"}
    words |= {"BatchGather": "batch", "BiasGelu": "gelu", "BiasRelu": "relu"}
    words |= {"LossRing": "loss ring"}
    words |= {"StagedCopy": "staged copy", "EvaluationRecord": "evaluation record"}
    words |= {"GradientNorm": "gradient norm"}
    words |= {"CausalConv1d": "conv1d", "GatedRmsNorm": "gated", "BinaryCrossEntropy": "bce"}
    words |= {"RmsNorm": "rms", "GatedUpdate": "update", "GatedLoop": "loop forward"}
    for name in set(ops.__all__) - {"ControlBlock", "RandomState"}:  # device state, no launchers
        assert words.get(name, name.lower()) in tested, name
