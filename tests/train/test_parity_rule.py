"""tools/parity_rule.py: its right programs are right, its wrong ones wrong, and how it judges."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from lowgraph.models.parameters import initial_values
from lowgraph.models.presets import CharLMConfig
from tests.train.runs import ROOT, micro_corpus

torch = pytest.importorskip("torch", reason="the oracle extra is not installed")

SHAPE = CharLMConfig(context=8, width=16, heads=2, layers=1)


@pytest.fixture
def rule(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = importlib.util.spec_from_file_location("parity_rule", ROOT / "tools/parity_rule.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "SHAPE", SHAPE)
    return module


def _module(dtype: object = torch.float32) -> torch.nn.Module:
    from tests.models import rival_lm, torch_oracle

    return torch_oracle.load(rival_lm.LM(SHAPE), initial_values(SHAPE, 3), dtype)


def _gradients(module: torch.nn.Module) -> dict[str, np.ndarray]:
    tokens = torch.arange(3 * 9).reshape(3, 9) * 7 % 256
    module(tokens[:, :-1], tokens[:, 1:]).backward()
    return {name: p.grad.double().numpy() for name, p in module.named_parameters()}


@pytest.mark.parametrize("steps", ["50", "150", "0"])
def test_steps_that_are_no_windows_are_refused(
    rule: ModuleType, monkeypatch: pytest.MonkeyPatch, steps: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    command = ["parity_rule", "--steps", steps, "--json", str(tmp_path / "r.json")]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit):
        rule.main()
    assert f"--steps {steps}: give a multiple of 100" in capsys.readouterr().err


def test_another_order_of_sums_is_the_same_function(rule: ModuleType) -> None:
    """Other bits, and no farther from float64 than a few times what the plain program is."""
    exact, plain = _gradients(_module(torch.float64)), _gradients(_module())
    module = _module()
    rule.rewrite(module)
    found = _gradients(module)
    whole = np.sqrt(sum(np.sum(value**2) for value in exact.values()))
    differs = 0
    for name, value in exact.items():
        scale = np.linalg.norm(value) + 1e-6 * whole
        rounding = np.linalg.norm(plain[name] - value) / scale
        assert np.linalg.norm(found[name] - value) / scale < 10 * max(rounding, 1e-7), name
        differs += (found[name] != plain[name]).any()
    assert differs > len(exact) // 2


@pytest.mark.parametrize(("early", "close"), [(False, True), (True, False)])
def test_adamw_written_out_is_adamw_but_for_the_slip(
    rule: ModuleType, early: bool, close: bool
) -> None:
    ends = []
    for written in (False, True):
        weight = torch.nn.Parameter(torch.linspace(-1, 1, 50))
        groups = [{"params": [weight], "weight_decay": 0.1}]
        optimizer = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.99), eps=1e-2)
        if written:
            optimizer = rule.WrittenAdamW(optimizer, early_epsilon=early)
        for _ in range(5):
            optimizer.zero_grad()
            (weight**4).sum().backward()
            optimizer.step()
        ends.append(weight.detach().numpy())
    assert np.allclose(*ends, rtol=0, atol=1e-6) == close


def test_a_rule_fails_a_run_by_its_worst_window(rule: ModuleType) -> None:
    def run(*mean: float, first: float = 0.0) -> dict[str, list[float]]:
        return {"mean": list(mean), "first_50_max": [first]}

    quiet = {"nudged": run(1e-5, 1e-4), "nudged 2": run(1e-5, 4e-4), "nudged 3": run(1e-6, 1e-4),
             "each": run(1e-5, 1e-4)}  # fmt: skip
    found = {0: {**quiet, "parts": run(0.0, 2e-3), "order": run(0.0, 0.0, first=2e-4)}}
    judged = rule.judge(found)
    excess = {label: judged[label]["parts"]["excess"][0] for label in rule.RULES}
    assert excess["one nudge"] == pytest.approx(2e-3 / (1e-3 + 1e-6))
    assert excess["widest of three nudges"] == pytest.approx(2e-3 / (4e-3 + 1e-6))
    assert judged["one nudge"]["parts"]["failed"] == 1
    assert judged["widest of three nudges"]["parts"]["failed"] == 0
    assert judged["widest of three nudges"]["order"]["excess"] == [pytest.approx(2.0)]
    assert "rate" not in judged["one nudge"]


def test_a_short_study_writes_its_figures(
    rule: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = micro_corpus(tmp_path)
    monkeypatch.setattr(rule, "read_corpus", lambda path: corpus)
    monkeypatch.setattr(rule, "WINDOW", 10)
    flags = ["--seeds", "1", "--wrong", "1", "--steps", "60", "--json", str(tmp_path / "f.json")]
    monkeypatch.setattr(sys, "argv", ["parity_rule.py", *flags])
    assert rule.main() == 0
    found = json.loads((tmp_path / "f.json").read_text())
    runs = found["seeds"]["0"]
    assert set(runs) == {*rule.NUDGES, "each", *rule.RIGHT, *rule.WRONG}
    assert all(len(run["mean"]) == 6 for run in runs.values())
    for name in (*rule.NUDGES, "each", *rule.RIGHT):
        assert 0 < runs[name]["first_50_max"][0] < 1e-5, name
    assert runs["nudged"]["mean"] != runs["nudged 2"]["mean"]
    assert runs["rate"]["mean"][-1] > 10 * runs["order"]["mean"][-1]
