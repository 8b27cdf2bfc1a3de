"""The regression guard that needs no GPU: steps cost what benchmarks/expected_costs.json says."""

from __future__ import annotations

import copy
import importlib.util
from typing import Any

import pytest

from lowgraph.bench.costs import costs_of
from lowgraph.bench.data import dataset
from lowgraph.driver import Device
from lowgraph.models import MODELS, find_preset
from lowgraph.train.parts import Parts
from lowgraph.train.plan import Plan, Schedule
from tests.packaging.tree import ROOT

pytestmark = pytest.mark.host


def _table() -> Any:
    file = ROOT / "benchmarks" / "expected_costs.py"
    spec = importlib.util.spec_from_file_location("expected_costs", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


table = _table()


def test_the_table_has_every_preset() -> None:
    known = {(model, preset) for model, entry in MODELS.items() for preset in entry.presets}
    counted = {tuple(case.split()[:2]) for case in table.expected()}
    assert counted == known - table.TOO_LARGE
    assert list(table.expected()) == [" ".join(case) for case in table.cases()]


@pytest.mark.parametrize("case", table.cases(), ids=" ".join)
def test_a_step_costs_what_the_table_says(device: Device, case: tuple[str, str, str]) -> None:
    lines = table.differences(table.expected()[" ".join(case)], costs_of(device, *case))
    assert not lines, (
        f"a step of {' '.join(case)} costs other than before: {'; '.join(lines)}. If that is "
        "meant, rewrite the table with `python benchmarks/expected_costs.py --write` and say why "
        "in the commit"
    )


def test_the_count_is_that_of_a_real_step(device: Device) -> None:
    """The recorded step, which never ran, has the nodes and launches of the trainer's graph."""
    chosen = find_preset("mamba2", "nano")
    schedule = Schedule(steps=10, warmup=0, learning_rate=1e-3, batch=chosen.batch)
    plan = Plan("mamba2", "nano", chosen.model, schedule, log_every=1)
    parts = Parts(device, plan, dataset(plan), graph=True, ring_slots=4)
    try:
        for _ in range(2):
            parts.advance()
        report = parts.graph_step.report()
        taken = report.window.bytes
    finally:
        parts.close()
    found = costs_of(device, "mamba2", "nano", "fp32")
    assert found["nodes"] == report.nodes
    assert found["launches"] == report.launches_eager_step == sum(found["kernels"].values())
    # Every slice of the step is written and read at least once, the parameters and moments too.
    assert found["bytes"] > 2 * taken + 7 * parts.model.parameters.flat.nbytes


def test_a_changed_figure_is_named_with_both_values() -> None:
    was = table.expected()["charlm nano fp32"]
    now = copy.deepcopy(was)
    assert table.differences(was, now) == []
    now["nodes"] += 1
    now["kernels"]["gemm_nn"] -= 1
    now["kernels"]["brand_new"] = 2
    assert table.differences(was, now) == [
        f"nodes: {was['nodes']} expected, {was['nodes'] + 1} now",
        f"gemm_nn: {was['kernels']['gemm_nn']} expected, {was['kernels']['gemm_nn'] - 1} now",
        "brand_new: 0 expected, 2 now",
    ]
