"""Branches of a backward pass: the same bits however many, and no memory handed on early."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.blas import Blas
from lowgraph.capture import GraphStep
from lowgraph.driver import gate
from lowgraph.errors import ConfigError
from lowgraph.memory import PersistentPool, Slice, download
from lowgraph.models import CharLM, CharLMConfig
from lowgraph.models.branches import Branches, branch_count
from lowgraph.precision import Precision
from tests.models.bench import Bench
from tests.models.cases import batch_of, perturbed
from tests.support.rig import Rig

CONFIG = CharLMConfig(context=33, width=48, heads=3, layers=2)
# Wide enough for the kernels that are compiled when they are first called, which is in the priming.
WIDE = CharLMConfig(context=5, width=272, heads=17, layers=1, vocabulary=4099)
FP32, TF32, BF16 = Precision


def _bench(rig: Rig, branches: int | None, config: CharLMConfig = CONFIG) -> Bench:
    def build(config: CharLMConfig, **given: Any) -> CharLM:
        return CharLM(config, **given, branches=branches)

    return Bench(rig, config, perturbed(config, 1), build, BF16)


@pytest.mark.parametrize("branches", [1, 2, 5])
def test_the_bits_are_those_of_one_stream(rig: Rig, branches: int) -> None:
    """Five branches of two layers: some have one product, and each is joined."""
    tokens, targets = batch_of(CONFIG, 3, seed=2)
    found = []
    for count in (0, branches):
        bench = _bench(rig, count)
        found.append(bench.gradients(tokens, targets)[1])
        again = bench.gradients(tokens, targets)[1]
        for name, gradient in found[-1].items():
            np.testing.assert_array_equal(again[name], gradient, name)
        bench.close()
    for name, gradient in found[0].items():
        np.testing.assert_array_equal(found[1][name], gradient, name)


@pytest.mark.parametrize("config", [CONFIG, WIDE], ids=["narrow", "wide"])
def test_a_captured_pass_gives_the_eager_bits(rig: Rig, config: CharLMConfig) -> None:
    tokens, targets = batch_of(config, 3, seed=2)
    bench = _bench(rig, 1, config)
    given = bench.put("tokens", tokens), bench.put("targets", targets)
    flat = bench.model.gradients.flat

    def body(stream: int) -> None:
        bench.pool.give_back(bench.pass_over(*given))

    step = GraphStep(
        body, device=rig.device, pool=bench.pool, stream=rig.stream, library=rig.library
    )
    step()
    eager = download(flat, rig.stream)
    for _ in range(2):
        bench.model.gradients.zero(rig.stream)
        step()
        np.testing.assert_array_equal(download(flat, rig.stream), eager)
    report = step.report()
    assert (report.replays, report.refusals) == (2, 0)
    step.close()
    bench.close()


class _Sides:
    """Side streams that note what is asked of them."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def fork(self, stream: int, index: int) -> int:
        self.asked.append(("fork", index))
        return 100 + index

    def mark(self, index: int) -> None:
        self.asked.append(("mark", index))

    def wait_for_mark(self, stream: int, index: int) -> None:
        self.asked.append(("wait", index))

    def join(self, stream: int, index: int) -> None:
        self.asked.append(("join", index))


class _Blas:
    def __init__(self) -> None:
        self.sides = _Sides()


def _branches(count: int) -> tuple[Branches, list[tuple[str, int]], list[Any]]:
    blas, dropped = _Blas(), list[Any]()
    made = Branches(blas, 7, count, lambda *pieces: dropped.extend(pieces))  # type: ignore[arg-type]
    return made, blas.sides.asked, dropped


def test_what_a_branch_reads_is_kept_until_the_join() -> None:
    branches, asked, dropped = _branches(2)
    assert [branches.fork() for _ in range(3)] == [100, 101, 100]
    branches.drop("x", "dy")
    assert not dropped
    branches.join()
    assert dropped == ["x", "dy"]
    assert asked[-2:] == [("join", 0), ("join", 1)]


def test_the_mark_stays_with_its_stream() -> None:
    branches, asked, _ = _branches(2)
    branches.fork()
    branches.mark()
    branches.fork()
    branches.wait_for_mark()
    assert asked == [("fork", 0), ("mark", 0), ("fork", 1), ("wait", 0)]


def test_a_side_stream_without_work_is_not_joined() -> None:
    """Its event was not recorded in the capture, and to wait for it would break that."""
    branches, asked, _ = _branches(3)
    branches.fork()
    branches.join()
    assert asked == [("fork", 0), ("join", 0)]


def test_without_branches_all_is_on_the_one_stream() -> None:
    branches, asked, dropped = _branches(0)
    assert branches.fork() == 7
    branches.mark()
    branches.wait_for_mark()
    branches.drop("x")
    assert dropped == ["x"]
    branches.join()
    assert not asked


def test_how_many_suit_a_model() -> None:
    assert branch_count(None, 256, BF16) == 1
    assert branch_count(None, 768, BF16) == 0
    assert branch_count(None, 64, FP32) == branch_count(None, 64, TF32) == 0
    assert branch_count(3, 768, BF16) == 3
    assert branch_count(0, 64, FP32) == 0


@pytest.mark.parametrize(("wanted", "precision"), [(1, FP32), (2, TF32), (-1, BF16)])
def test_branches_that_cannot_be_are_refused(wanted: int, precision: Precision) -> None:
    with pytest.raises(ConfigError, match=r"branches=-?\d: must be 0, or with precision bf16"):
        branch_count(wanted, 64, precision)


def test_side_streams_go_with_the_blas(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = PersistentPool(rig.device)
    blas, seen = Blas(rig.device, rig.library, rig.stream, pool), list[str]()
    monkeypatch.setattr(gate, "observer", lambda name, args, code: seen.append(name))
    blas.sides.make(2)
    blas.sides.make(1)
    assert seen.count("cuStreamCreate") == 2
    blas.close()
    blas.close()
    assert seen.count("cuStreamDestroy") == 2
    assert seen.count("cuEventCreate") == seen.count("cuEventDestroy") == 6
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
def test_branches_race_with_nothing() -> None:
    """The check build sees work of a graph that no path orders, eager and replayed."""
    script = Path(__file__).with_name("branched_step.py")
    command = [sys.executable, "-m", "lowgraph", "check", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 findings" in done.stdout
