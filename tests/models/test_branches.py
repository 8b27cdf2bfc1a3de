"""Branches of a backward pass: the same bits however many, and no memory handed on early."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.blas import Blas
from lowgraph.blas.sides import SideStreams
from lowgraph.driver import gate
from lowgraph.driver.launch import LaunchConfig
from lowgraph.errors import ConfigError
from lowgraph.kernels import Kernel, launch
from lowgraph.memory import PersistentPool, Slice, download
from lowgraph.models import CharLM, CharLMConfig
from lowgraph.models.mamba2 import Mamba2
from lowgraph.models.mamba2_config import Mamba2Config, Mamba2LMConfig
from lowgraph.models.mamba2_lm import Mamba2LM
from lowgraph.precision import Precision
from tests.models import branched_step, cases, cases_mamba2
from tests.models.bench import Bench
from tests.models.passes import assert_captured_equals_eager
from tests.support.rig import Rig

# Wide enough for the kernels that are compiled when they are first called, which is in the priming.
WIDE = CharLMConfig(context=5, width=272, heads=17, layers=1, vocabulary=4099)
FP32, TF32, BF16 = Precision
CHARLM = CharLMConfig(context=33, width=48, heads=3, layers=2)
# Short sequences, which a block makes by itself, and longer ones, made by chunks.
PERCEPTION = Mamba2Config(5, 24, 33, 2, 12, 7, 4, 3)
LONG = Mamba2Config(5, 24, 70, 2, 12, 7, 4, 3)
LM = Mamba2LMConfig(18, 33, 2, 61, 2, 12, 7, 4)
MODELS: dict[type, Any] = {CharLMConfig: CharLM, Mamba2Config: Mamba2, Mamba2LMConfig: Mamba2LM}
CASES = {
    "charlm": (CHARLM, BF16), "charlm-fp32": (CHARLM, FP32),
    "mamba2": (PERCEPTION, TF32), "mamba2-bf16": (PERCEPTION, BF16), "mamba2-long": (LONG, FP32),
    "mamba2-lm": (LM, TF32), "mamba2-lm-bf16": (LM, BF16),
}  # fmt: skip
WIDE_CASES = {"charlm-wide": (WIDE, BF16)}
each = pytest.mark.parametrize("case", CASES)


def _bench(rig: Rig, case: str, branches: int | None) -> Bench:
    config, precision = {**CASES, **WIDE_CASES}[case]

    def build(config: Any, **given: Any) -> Any:
        return MODELS[type(config)](config, **given, branches=branches)

    weights = cases if isinstance(config, CharLMConfig) else cases_mamba2
    return Bench(rig, config, weights.perturbed(config, 1), build, precision)


def _batch(case: str) -> tuple[Any, Any]:
    config, _ = {**CASES, **WIDE_CASES}[case]
    drawn = cases if isinstance(config, CharLMConfig) else cases_mamba2
    return drawn.batch_of(config, 3, seed=2)


@pytest.mark.parametrize("branches", [1, 2, 5])
@each
def test_the_bits_are_those_of_one_stream(rig: Rig, case: str, branches: int) -> None:
    """Five branches of two layers: some have one product, and each is joined."""
    batch = _batch(case)
    found = []
    for count in (0, branches):
        bench = _bench(rig, case, count)
        found.append(bench.gradients(*batch)[1])
        again = bench.gradients(*batch)[1]
        for name, gradient in found[-1].items():
            np.testing.assert_array_equal(again[name], gradient, name)
        bench.close()
    for name, gradient in found[0].items():
        np.testing.assert_array_equal(found[1][name], gradient, name)


@pytest.mark.parametrize("case", [*CASES, *WIDE_CASES])
def test_a_captured_pass_gives_the_eager_bits(rig: Rig, case: str) -> None:
    inputs, targets = _batch(case)
    bench = _bench(rig, case, 1)
    assert_captured_equals_eager(bench, inputs, targets)
    bench.close()


# Kernels that nothing waits for before the end, of which none may stay on the main stream.
ASIDE = {
    "charlm-fp32": {"bias_pair_partial", "bias_sums_final", "layernorm_parameters"},
    "mamba2": {
        "readout_backward_final", "gated_update_bias_final", "conv1d_backward_final",
        "column_sum_partial", "column_sum_final",
    },
    "mamba2-long": {"ssd_backward_final", "readout_backward_final", "column_sum_final"},
    "mamba2-lm": {
        "embedding_order", "rms_norm_backward_partial", "column_sum_final", "conv1d_backward_final"
    },
}  # fmt: skip


@pytest.mark.parametrize("case", ASIDE)
def test_what_nothing_waits_for_is_beside_the_chain(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    bench, seen = _bench(rig, case, 1), defaultdict[int, set[str]](set)

    def watch(kernel: Kernel, values: object, config: LaunchConfig, args: object) -> None:
        seen[int(config.raw.hStream)].add(kernel.name)

    monkeypatch.setattr(launch, "observer", watch)
    bench.gradients(*_batch(case))
    main, side = seen.pop(rig.stream), set[str]().union(*seen.values())
    assert side >= ASIDE[case] and not main & ASIDE[case]
    if bench.blas.backend == "kernel":  # else the products are no kernels of ours
        assert "gemm_tn" in side
    monkeypatch.undo()
    bench.close()


@pytest.mark.host  # where products are kernels of ours
@pytest.mark.parametrize("case", ["mamba2", "mamba2-lm"])
def test_the_convolutions_parameters_are_not_in_front_of_a_product(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """The one block's pass would end with both in a row: there they have a stream of their own."""
    bench, seen = _bench(rig, case, 1), defaultdict[int, list[str]](list)

    def watch(kernel: Kernel, values: object, config: LaunchConfig, args: object) -> None:
        seen[int(config.raw.hStream)].append(kernel.name)

    monkeypatch.setattr(launch, "observer", watch)
    bench.gradients(*_batch(case))
    del seen[rig.stream]
    names = next(names for names in seen.values() if "conv1d_backward_final" in names)
    at = names.index("conv1d_backward_final")
    if case == "mamba2":
        assert names == ["conv1d_backward_final", "column_sum_partial", "column_sum_final"]
    else:  # behind the weights of the head and of both projections of the last block
        assert names[:at].count("gemm_tn") == 3, names
    monkeypatch.undo()
    bench.close()


def test_side_streams_go_with_the_blas(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = PersistentPool(rig.device)
    blas, seen = Blas(rig.device, rig.library, rig.stream, pool), list[str]()
    monkeypatch.setattr(gate, "observer", lambda name, args, code: seen.append(name))
    blas.sides.make(2)
    blas.sides.make(1)
    assert seen.count("cuStreamCreateWithPriority") == 2
    blas.close()
    blas.close()
    assert seen.count("cuStreamDestroy") == 2
    assert seen.count("cuEventCreate") == seen.count("cuEventDestroy") == 6
    pool.close()


@pytest.mark.parametrize("count", [-1, 1.5, True], ids=repr)
def test_a_number_of_side_streams_that_cannot_be_is_refused(rig: Rig, count: Any) -> None:
    """-1 made none, and said nothing."""
    sides = SideStreams(rig.stream)
    told = f"^the number of side streams must be an integer of at least 0, got {count!r}$"
    with pytest.raises(ConfigError, match=told):
        sides.make(count)
    sides.make(0)
    assert sides.add() == 0, "none was made"
    sides.close()


@pytest.mark.parametrize("yields", [False, True])
def test_side_streams_have_the_priority_of_the_stream_beside_them_or_the_least(
    rig: Rig, yields: bool
) -> None:
    pool = PersistentPool(rig.device)
    greatest = driver.stream.greatest_priority()
    assert greatest < 0
    main = driver.stream.create(priority=greatest)
    blas = Blas(rig.device, rig.library, main, pool)
    blas.sides.make(1, yields=yields)
    side = blas.sides.fork(main, 0)
    blas.sides.join(main, 0)
    assert driver.stream.priority_of(main) == greatest
    assert driver.stream.priority_of(side) == (0 if yields else greatest)
    blas.close()
    driver.stream.synchronize(main)
    driver.stream.destroy(main)
    pool.close()


def test_side_work_waits_for_what_was_issued_before(rig: Rig) -> None:
    """A long chain on the main stream, and its result copied on the side one."""
    pool = PersistentPool(rig.device)
    blas = Blas(rig.device, rig.library, rig.stream, pool)
    blas.sides.make(1)
    a, b = (pool.take(name, (1 << 20,)) for name in "ab")
    for value in range(20):
        _fill(a, value, rig.stream)
    side = blas.sides.fork(rig.stream, 0)
    driver.memory.copy_dtod_async(b.address, a.address, a.nbytes, side)
    blas.sides.join(rig.stream, 0)
    _fill(a, 99, rig.stream)
    assert set(download(b, rig.stream).view(np.uint32).tolist()) == {19}
    blas.close()
    pool.close()


def _fill(piece: Slice, value: int, stream: int) -> None:
    driver.memory.memset_d32_async(piece.address, value, piece.elements, stream)


@pytest.mark.host
@pytest.mark.exhaustive
@pytest.mark.parametrize("model", branched_step.CASES)
def test_branches_race_with_nothing(model: str) -> None:
    """The check build sees work of a graph that no path orders, eager and replayed."""
    script = Path(__file__).with_name("branched_step.py")
    command = [sys.executable, "-m", "lowgraph", "check", str(script), model]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 findings" in done.stdout
