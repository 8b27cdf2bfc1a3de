"""The gates of every model but charlm, whose steps test_verify.py cripples one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lowgraph.driver import Device
from lowgraph.memory import Slice
from lowgraph.models.linear import Linear
from lowgraph.models.mamba2_lm_layers import LMLayers
from lowgraph.models.registry import find_model
from lowgraph.train import verify
from lowgraph.train.datasets import read_data
from lowgraph.train.gates import Gate
from tests.train.runs import MICRO, micro_file, micro_plan

pytestmark = pytest.mark.both

MODELS = ["mamba2", "mamba2-lm", "mlp"]


@pytest.mark.parametrize("model", MODELS)
def test_a_sound_step_passes_every_gate(device: Device, model: str, tmp_path: Path) -> None:
    data = read_data(model, micro_file(model, tmp_path))
    gates = verify.verify(device, micro_plan(model), data, steps=3)
    assert [gate.text() for gate in gates if not gate.passed] == []
    assert tuple(gate.name for gate in gates) == verify.GATES
    told = "\n".join(gate.text() for gate in gates)
    assert "()" not in told, "SGD has no state to name"
    assert "over 4 steps, the fewest that show it: without a pin" in told
    figures = {gate.name: gate.figure for gate in gates}
    parameters = len(find_model(model).specs(MICRO[model]))
    assert figures["moves"] == figures["coverage"] == parameters
    assert figures["launches"] == 1
    assert (figures["negative"] or 0) > 0


BIAS_GRADIENT = Linear.bias_gradient


def _no_input_bias(layers: Linear, stream: int, name: str, dy: Slice, *drop: Any) -> None:
    if name != "e":
        BIAS_GRADIENT(layers, stream, name, dy, *drop)


LEFT_OUT: dict[str, tuple[str, type, str, Callable[..., Any], str]] = {
    "input bias": ("mamba2", Linear, "bias_gradient", _no_input_bias, "e.bias"),
    "embedding": (
        "mamba2-lm", LMLayers, "embed_backward", lambda *_: None, "backbone.embeddings.weight"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT_OUT)
def test_the_coverage_gate_names_a_parameter_without_a_gradient(
    device: Device, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, owner, method, crippled, parameter = LEFT_OUT[name]
    monkeypatch.setattr(owner, method, crippled)
    # It has a process of its own, which no cripple here reaches.
    monkeypatch.setattr(verify, "negative", lambda *_: Gate("negative", True, 0, "left out"))
    data = read_data(model, micro_file(model, tmp_path))
    gates = verify.verify(device, micro_plan(model), data, steps=2)
    red = {gate.name: gate.detail for gate in gates if not gate.passed}
    assert "coverage" in red
    assert f"{parameter}: " in red["coverage"] and "never written" in red["coverage"]
