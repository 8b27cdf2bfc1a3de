"""The negative gate passes only when the bare run goes wrong, and check and pin do their work."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from lowgraph.driver import Device
from lowgraph.errors import LowgraphError
from lowgraph.train.gates import Gate, negative
from lowgraph.train.gates.foreign import ForeignRun, Protection
from lowgraph.train.parts import Parts
from tests.train.runs import micro_corpus, micro_plan
from tests.train.updates import EVERYTHING

pytestmark = pytest.mark.both


def _gate(device: Device, folder: Path, patch: str = "") -> Gate:
    """The gate, with `patch` run in the child before its experiment."""
    code = f"from lowgraph.train.gates import foreign\n{patch}\nforeign.main()"
    command = (sys.executable, "-c", code)
    return negative(device, micro_plan(), micro_corpus(folder), 4, command)


def test_it_diverges_the_check_names_it_and_the_pin_mends_it(
    device: Device, tmp_path: Path
) -> None:
    gate = _gate(device, tmp_path)
    assert gate.passed
    assert (gate.figure or 0) > 0
    assert "without a pin the run diverged" in gate.detail
    assert "the check said: " in gate.detail
    assert "input 'parameters' of 'step of a foreign optimizer' moved" in gate.detail
    assert "with the pin it is the eager one" in gate.detail


def test_the_foreign_optimizer_does_what_the_runs_own_does(device: Device, tmp_path: Path) -> None:
    """So that it reads the gradients that the step's optimizer would: with micro-batches their sum.

    Bit for bit, for it is the same update with another place to write to.
    """
    plan, corpus = micro_plan(**EVERYTHING), micro_corpus(tmp_path)
    foreign = ForeignRun(device, plan, corpus, Protection.EAGER)
    values = foreign.run(3)
    foreign.close()
    parts = Parts(device, plan, corpus, graph=False, ring_slots=3)
    for _ in range(3):
        parts.advance()
    own = np.concatenate([value.ravel() for value in parts.tensors()["parameters"].values()])
    parts.close()
    np.testing.assert_array_equal(values.view(np.uint32), own.view(np.uint32))


def test_a_buffer_that_does_not_move_is_a_failed_gate(device: Device, tmp_path: Path) -> None:
    gate = _gate(device, tmp_path, "foreign.ForeignRun.move = lambda self: None")
    assert not gate.passed
    assert gate.figure == 0
    assert "did not go wrong" in gate.detail


FIXED = """
declare = foreign.{0}
foreign.{0} = lambda name, source: declare(name, source())  # where it is now, and for ever
"""


def test_a_check_that_says_nothing_is_a_failed_gate(device: Device, tmp_path: Path) -> None:
    gate = _gate(device, tmp_path, FIXED.format("Input"))
    assert not gate.passed
    assert "without a pin the run diverged" in gate.detail
    assert "the check said: nothing" in gate.detail


def test_a_pin_that_does_not_follow_is_a_failed_gate(device: Device, tmp_path: Path) -> None:
    gate = _gate(device, tmp_path, FIXED.format("CopyIn"))
    assert not gate.passed
    assert "parameters are wrong" in gate.detail


RETIRES = """
move = foreign.ForeignRun.move
def retiring(run):
    move(run)
    old = run.recorded()
    if run.graph_step.graph is not None and old is not run.current() and run._follows:
        old.pool.device.annotate(old.address, old.nbytes, "free", "retired parameters")
checked = foreign.protected
def protected(*given):
    found = checked(*given)
    foreign.ForeignRun.move = retiring
    return found
foreign.protected = protected
"""


@pytest.mark.host  # only the host device refuses a slice that the pool says is free
def test_a_run_that_dies_is_seen_as_such(device: Device, tmp_path: Path) -> None:
    gate = _gate(device, tmp_path, RETIRES)
    assert gate.passed
    assert "without a pin the run died" in gate.detail
    assert "retired parameters" in gate.detail


KILLED = """
import os, signal
foreign.{} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_by_the_bare_run_has_died(device: Device, tmp_path: Path) -> None:
    gate = _gate(device, tmp_path, KILLED.format("unprotected"))
    assert gate.passed
    assert "died: its process was ended by SIGKILL" in gate.detail


def test_a_process_that_is_killed_before_proves_nothing(device: Device, tmp_path: Path) -> None:
    with pytest.raises(LowgraphError, match="could not be made: its process was ended by SIGKILL"):
        _gate(device, tmp_path, KILLED.format("protected"))


def test_a_run_that_cannot_be_made_says_why(device: Device, tmp_path: Path) -> None:
    with pytest.raises(LowgraphError, match="could not be made: no such thing"):
        _gate(device, tmp_path, "raise SystemExit('no such thing')")


def test_a_step_without_a_graph_proves_nothing(device: Device, tmp_path: Path) -> None:
    waits = """
from lowgraph.train.step import TrainingStep
whole = TrainingStep.__call__
def waiting(self, stream):
    whole(self, stream)
    foreign.driver.stream.synchronize(stream)
TrainingStep.__call__ = waiting
"""
    with pytest.raises(LowgraphError, match=r"no graph: .*where nothing runs to wait for"):
        _gate(device, tmp_path, waits)
