"""Rivals compute what lowgraph does: same weights, same batches, same losses, on the CPU here.

What needs a GPU of them, graphs and compilation, is one `whole` step in other clothes.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph.bench.agreement import TOLERANCES, agree
from lowgraph.bench.cases import Case, cases
from lowgraph.bench.config import checkout
from lowgraph.bench.measure import start
from lowgraph.bench.process import ArmFailed, ArmProcess
from lowgraph.bench.rows import ROWS
from tests.support.settings import settings

pytestmark = pytest.mark.host

TORCH, JAX = "torch eager", "jax.jit"


@pytest.fixture
def started() -> Iterator[list[ArmProcess]]:
    processes: list[ArmProcess] = []
    yield processes
    for process in processes:
        process.close()


def case_of(name: str, folder: Path, precision: str = "fp32") -> Case:
    row = dataclasses.replace(ROWS[name], precision=precision)
    (case,) = cases(row, "host", "host", checkout(), folder)
    case.prepare(folder)
    return case


def facts(case: Case, who: str, started: list[ArmProcess]) -> dict[str, Any]:
    arm = next(arm for arm in case.arms(True) if arm.who == who)
    process = start(case, arm, checkout())
    started.append(process)
    spec = {**case.spec, "who": who, "mode": arm.mode}
    if who != "lowgraph":
        spec["device"] = "cpu"
    found: dict[str, Any] = process.ask(200, do="open", spec=spec)[who]
    figures = process.ask(60, do="burst", who=who, steps=1)
    assert figures["wall_us"] > 0
    assert figures["host_us"] > 0
    return found


@pytest.mark.parametrize("name", settings(["B1", "B7"], ["B2t", "B3", "B7e"]))
def test_pytorch_agrees(name: str, tmp_path: Path, started: list[ArmProcess]) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is the rival")
    case = case_of(name, tmp_path)
    ours, theirs = (facts(case, who, started)["losses"] for who in ("lowgraph", TORCH))
    # Of the movements of B7 the tolerance is that of bench.result: 1e-4.
    assert agree(ours, theirs, 1e-4 if name.startswith("B7") else TOLERANCES["fp32"])


@pytest.mark.parametrize("name", settings(["B1"], ["B2t", "B3"]))
def test_pytorch_agrees_in_bfloat16(name: str, tmp_path: Path, started: list[ArmProcess]) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is the rival")
    case = case_of(name, tmp_path, "bf16")
    ours, theirs = (facts(case, who, started)["losses"] for who in ("lowgraph", TORCH))
    assert agree(ours, theirs, TOLERANCES["bf16"])


@pytest.mark.parametrize("chunk", [1, 7, 16, 48, 64])
def test_pytorchs_scan_in_chunks_is_the_recurrence(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(checkout() / "rivals"))
    models = importlib.import_module("torch_models")
    sizes = {"width": 8, "expand": 2, "head_size": 8, "state": 5, "conv": 4}
    mixer = models.Mixer(sizes, chunk).double()
    generator = torch.Generator().manual_seed(0)
    draw = functools.partial(torch.randn, generator=generator, dtype=torch.float64)
    x, b, c = draw(2, 48, 2, 8), draw(2, 48, 5), draw(2, 48, 5)
    log_decay = -draw(2, 48, 2).abs()
    state, want = torch.zeros(2, 2, 8, 5, dtype=torch.float64), []
    for t in range(48):
        state = state * log_decay[:, t].exp()[..., None, None]
        state = state + x[:, t, :, :, None] * b[:, t, None, None]
        want.append((state * c[:, t, None, None]).sum(-1))
    # Sums of 48 terms in another order, and decays as quotients of products.
    torch.testing.assert_close(mixer.scan(x, log_decay, b, c), torch.stack(want, 1),
                               rtol=1e-10, atol=1e-10)  # fmt: skip


def test_jax_agrees(tmp_path: Path, started: list[ArmProcess]) -> None:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is the rival")
    case = case_of("B2t", tmp_path)
    ours, theirs = (facts(case, who, started)["losses"] for who in ("lowgraph", JAX))
    assert agree(ours, theirs, TOLERANCES["fp32"])


@pytest.mark.parametrize("tensor", settings(["hd.weight"], ["b.1.f2.bias"]))
def test_a_rival_with_other_weights_does_not_agree(
    tensor: str, tmp_path: Path, started: list[ArmProcess]
) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is the rival")
    case = case_of("B2t", tmp_path)
    file = tmp_path / "weights.npz"
    weights = dict(np.load(file).items())
    # Not a constant: the layer norm behind takes that away again.
    noise = np.random.default_rng(0).normal(0.0, 0.02, weights[tensor].shape)
    weights[tensor] = (weights[tensor] + noise).astype(np.float32)
    np.savez(file, **weights)  # type: ignore[arg-type]
    ours, theirs = (facts(case, who, started)["losses"] for who in ("lowgraph", TORCH))
    assert not agree(ours, theirs, TOLERANCES["fp32"])


def test_a_rival_that_is_not_installed_says_so(
    tmp_path: Path, started: list[ArmProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jax.py").write_text("raise ImportError('no jax here')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ArmFailed, match="no jax here"):
        facts(case_of("B2t", tmp_path), JAX, started)
