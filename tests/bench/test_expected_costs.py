"""The regression guard that needs no GPU: steps cost what benchmarks/expected_costs.json says."""

from __future__ import annotations

import copy
import importlib.util
import itertools
from typing import Any

import pytest

from lowgraph import driver
from lowgraph.bench.costs import costs_of
from lowgraph.bench.data import dataset
from lowgraph.driver import Device
from lowgraph.memory import PersistentPool, download, fill_zero
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
    counted = {tuple(case.split()) for case in table.expected()}
    kinds = itertools.product(("fp32", "tf32", "bf16"), ("kernel", "cublas"))
    assert counted == {(*case, *kind) for case, kind in itertools.product(known, kinds)}
    assert list(table.expected()) == [" ".join(case) for case in table.cases()]


@pytest.mark.parametrize("case", table.cases(), ids=" ".join)
def test_a_step_costs_what_the_table_says(device: Device, case: tuple[str, str, str, str]) -> None:
    lines = table.differences(table.expected()[" ".join(case)], costs_of(device, *case))
    assert not lines, (
        f"a step of {' '.join(case)} costs other than before: {'; '.join(lines)}. If that is "
        "meant, rewrite the table with `python benchmarks/expected_costs.py --write` and say why "
        "in the commit"
    )


@pytest.mark.parametrize(("model", "precision"), [("mamba2", "fp32"), ("charlm", "bf16")])
def test_the_count_is_that_of_a_real_step(device: Device, model: str, precision: str) -> None:
    """The recorded step, which never ran, has the nodes and launches of the trainer's graph."""
    chosen = find_preset(model, "nano")
    schedule = Schedule(steps=10, warmup=0, learning_rate=1e-3, batch=chosen.batch)
    plan = Plan(model, "nano", chosen.model, schedule, 1, precision)
    parts = Parts(device, plan, dataset(plan), graph=True, ring_slots=4)
    try:
        for _ in range(2):
            parts.advance()
        report = parts.graph_step.report()
        taken = report.window.bytes
        flat = parts.model.parameters.flat.nbytes
    finally:
        parts.close()
    found = costs_of(device, model, "nano", precision)
    assert found["nodes"] == report.nodes
    assert found["launches"] == report.launches_eager_step == sum(found["kernels"].values())
    if precision == "fp32":
        # Every slice of the step is written and read at least once, the parameters and moments too.
        assert found["bytes"] > 2 * taken + 7 * flat


def test_counting_leaves_the_device_as_it_was(device: Device) -> None:
    before = driver.memory.info()
    found = costs_of(device, "charlm", "gpt2", "bf16", "cublas")
    assert found["pool"] > 4 * 163e6 * 4, "parameters, gradients and moments alone"
    assert driver.memory.info() == before
    piece = PersistentPool(device).take("ones", 7)
    stream = driver.stream.create()
    fill_zero(piece, stream)
    assert not download(piece, stream).any(), "fills run again"


def test_a_gpus_routes_fuse_what_the_host_does_apart() -> None:
    """Bias and GELU ride on products; tiny's are kernels of ours, with the norms too."""
    costs = table.expected()
    for preset in ("tiny", "small", "gpt2"):
        host, gpu = (costs[f"charlm {preset} bf16 {backend}"] for backend in ("kernel", "cublas"))
        apart = {"bias_add", "bias_gelu_forward"}
        if preset == "tiny":
            apart |= {"layernorm_residual_forward", "layernorm_backward"}
        assert apart < host["kernels"].keys()
        assert not apart & gpu["kernels"].keys()
        assert gpu["nodes"] < host["nodes"]
    assert costs["charlm tiny bf16 cublas"]["kernels"]["linear_mma_forward_gelu"] > 0


def test_the_page_has_the_nodes_of_the_benchmarks_rows() -> None:
    page = " ".join((ROOT / "docs" / "bench.md").read_text(encoding="utf-8").split())
    nodes = {case: costs["nodes"] for case, costs in table.expected().items()}
    tiny, small, gpt2 = (nodes[f"charlm {p} bf16 cublas"] for p in ("tiny", "small", "gpt2"))
    mamba2, mlp = nodes["mamba2 perception tf32 cublas"], nodes["mlp bench tf32 cublas"]
    assert (
        f"`charlm tiny` {tiny} nodes, `small` {small}, `gpt2` {gpt2} in bfloat16; `mamba2 "
        f"perception` {mamba2} and `mlp bench` {mlp} in TF32"
    ) in page


def test_a_changed_figure_is_named_with_both_values() -> None:
    was = table.expected()["charlm nano fp32 kernel"]
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
