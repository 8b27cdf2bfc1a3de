"""The gates pass a sound step, and each goes red for a step that is wrong in its own way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph import ops
from lowgraph.capture import CopyIn, GraphStep
from lowgraph.driver import Device
from lowgraph.errors import CaptureFailed, LowgraphError
from lowgraph.models.layers import Layers
from lowgraph.optim import Accumulation, AdamW
from lowgraph.train import verify
from lowgraph.train.data import Corpus
from lowgraph.train.gates import Gate
from lowgraph.train.gates.launches import Sent
from tests.support.process import output_of
from tests.support.rig import Rig
from tests.train import cripples
from tests.train.runs import micro_corpus, micro_plan
from tests.train.updates import EVERYTHING

pytestmark = pytest.mark.both

Gates = dict[str, Gate]


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return micro_corpus(tmp_path)


@pytest.fixture
def judge(device: Device, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run all gates but negative, which has a process of its own that no cripple here reaches."""
    monkeypatch.setattr(verify, "negative", lambda *_: Gate("negative", True, 0, "left out"))

    def run(steps: int = 3) -> Gates:
        gates = verify.verify(device, micro_plan(), corpus, steps=steps)
        assert tuple(gate.name for gate in gates) == verify.GATES
        return {gate.name: gate for gate in gates}

    return run


def _failed(gates: Gates) -> set[str]:
    return {name for name, gate in gates.items() if not gate.passed}


def _use_step(monkeypatch: pytest.MonkeyPatch, step: type) -> None:
    monkeypatch.setattr("lowgraph.train.parts.TrainingStep", step)


def test_a_sound_step_passes_every_gate(device: Device, corpus: Corpus) -> None:
    said: list[str] = []
    gates = verify.verify(device, micro_plan(), corpus, steps=4, say=said.append)
    assert [gate.name for gate in gates if not gate.passed] == []
    assert [gate.name for gate in gates] == list(verify.GATES)
    assert said == [gate.text() for gate in gates]
    figures = {gate.name: gate.figure for gate in gates}
    assert figures["positive"] == figures["repeats"] == 0
    assert figures["launches"] == 1
    assert figures["moves"] == figures["coverage"] == 17  # tensors of one layer
    assert (figures["negative"] or 0) > 0


def test_a_step_with_everything_on_passes_every_gate(device: Device, corpus: Corpus) -> None:
    """Clipping, average, micro-batches and a linear schedule."""
    plan = micro_plan(**EVERYTHING)
    gates = {gate.name: gate for gate in verify.verify(device, plan, corpus, steps=3)}
    assert _failed(gates) == set()
    # Gradients, their sum, parameters, two moments and average; the control block.
    assert f"bit for bit in {6 * 17 + 1} buffers" in gates["positive"].detail
    assert "a gradient and state (moment1, moment2, ema)" in gates["coverage"].detail
    assert (gates["negative"].figure or 0) > 0


@pytest.fixture
def judge_everything(
    device: Device, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Gates]:
    """As `judge`, with everything on."""
    monkeypatch.setattr(verify, "negative", lambda *_: Gate("negative", True, 0, "left out"))
    plan = micro_plan(**EVERYTHING)
    return lambda: {gate.name: gate for gate in verify.verify(device, plan, corpus, steps=2)}


def test_an_average_that_is_never_written(
    judge_everything: Callable[[], Gates], monkeypatch: pytest.MonkeyPatch
) -> None:
    step = ops.AdamW.step

    def without(kernel: ops.AdamW, *given: Any, ema: Any = 0, **named: Any) -> None:
        spare = ema.pool.take("spare", ema.elements)
        step(kernel, *given, ema=spare, **named)
        ema.pool.give_back(spare)

    monkeypatch.setattr(ops.AdamW, "step", without)
    gates = judge_everything()
    assert _failed(gates) == {"coverage"}
    assert "elements of ema stay zero" in gates["coverage"].detail


def test_a_sum_that_is_never_written(
    judge_everything: Callable[[], Gates], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Accumulation, "add", lambda *_: None)
    gates = judge_everything()
    assert "coverage" in _failed(gates)
    assert "elements of the gradient are never written" in gates["coverage"].detail


def test_without_the_optimizer_nothing_moves(judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AdamW, "step", lambda *_: None)
    gates = judge()
    assert _failed(gates) == {"moves", "coverage"}
    assert gates["moves"].figure == 0
    assert "unchanged: e.weight" in gates["moves"].detail
    assert "elements of moment1 stay zero" in gates["coverage"].detail


def test_a_step_that_no_snapshot_repeats(judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _use_step(monkeypatch, cripples.Forgetful)
    gates = judge()
    assert _failed(gates) == {"positive", "repeats"}
    assert "parameters.n.bias" in gates["repeats"].detail


def test_a_recording_that_leaves_a_launch_out(judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _use_step(monkeypatch, cripples.Sloppy)
    gates = judge()
    assert _failed(gates) == {"positive"}
    # In the first step only the parameter itself differs; adamw is the last to write it.
    expected = "first, in step 1: parameters.n.bias (16 of 16 elements), last written by adamw"
    assert expected in gates["positive"].detail


@pytest.mark.parametrize("kind", ["launch", "fill", "sync", "allocation"])
def test_a_call_beside_the_graph_launch(
    kind: str, judge: Any, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = rig.empty((64,), "float32")
    advance = rig.library.kernel(cripples.KERNELS, "advance")
    calls = cripples.extra_calls(
        scratch.address,
        lambda stream: advance(stream, 1, 1, scratch.address, scratch.address + 16),
    )
    monkeypatch.setattr(cripples.Chatty, "extra", calls[kind], raising=False)
    monkeypatch.setattr("lowgraph.train.parts.GraphStep", cripples.Chatty)
    gates = judge()
    assert _failed(gates) == {"launches"}
    assert "3 graph launches" in gates["launches"].detail


def test_a_step_that_launches_its_graph_twice(judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lowgraph.train.parts.GraphStep", cripples.Doubling)
    gates = judge()
    assert _failed(gates) == {"positive", "launches"}
    assert gates["launches"].figure == 2
    # Which comes first differs: products are cuBLAS's on a GPU, a kernel of ours on the host.
    assert "first, in step 1: " in gates["positive"].detail


def test_a_copy_in_pin_is_a_launch_shown_apart(
    judge: Any, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin = CopyIn("factor", rig.put(np.zeros(4, np.float32)))

    def pinned(*given: Any, **named: Any) -> GraphStep:
        return GraphStep(*given, **named, pins=[pin])

    monkeypatch.setattr(cripples.Reading, "pin", pin, raising=False)
    monkeypatch.setattr("lowgraph.train.parts.GraphStep", pinned)
    _use_step(monkeypatch, cripples.Reading)
    gates = judge()
    assert gates["launches"].passed
    assert gates["launches"].figure == 2
    assert "3 graph launches, 3 other launches" in gates["launches"].detail
    assert "1 copy-in pins" in gates["launches"].detail


def test_a_parameter_without_a_gradient(judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Weight decay still moves it, and all arms agree: only coverage can see it.
    monkeypatch.setattr(Layers, "embed_backward", lambda *_: None)
    gates = judge()
    assert _failed(gates) == {"coverage"}
    assert gates["coverage"].figure == 15
    for name in ("e.weight", "p.weight"):
        assert f"{name}: " in gates["coverage"].detail
    assert "never written" in gates["coverage"].detail


def test_a_write_beside_the_gradients(judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _use_step(monkeypatch, cripples.Scribbling)
    gates = judge()
    assert _failed(gates) == {"coverage"}
    assert "between the tensors of gradients were written" in gates["coverage"].detail
    assert "the gradient is zero in every element" in gates["coverage"].detail


def test_a_step_without_a_graph(judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _use_step(monkeypatch, cripples.Waiting)
    gates = judge()
    assert _failed(gates) == {"positive", "moves", "repeats", "launches"}
    for name in ("positive", "moves", "repeats", "launches"):
        assert gates[name].figure is None
        assert "where nothing runs to wait for" in gates[name].detail


def test_an_error_in_a_gate_is_its_outcome(judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_subject: object) -> Gate:
        raise CaptureFailed("the replay was refused")

    monkeypatch.setattr(verify, "moves", broken)
    gates = judge()
    assert _failed(gates) == {"moves"}
    assert gates["moves"].detail == "CaptureFailed: the replay was refused"


LOSES_THE_DEVICE = """
from lowgraph.driver import open_device
from lowgraph.train import gates, verify
from tests.train.runs import micro_corpus, micro_plan
from pathlib import Path
def moves(subject):
    flat = subject.parts.model.parameters.flat
    subject.device.annotate(flat.address, flat.nbytes, "free", "retired parameters")
    return gates.moves(subject)
verify.moves = moves
for gate in verify.verify(open_device("host"), micro_plan(), micro_corpus(Path({!r})), steps=2):
    print(gate.text())
"""


@pytest.mark.host  # the host device alone can be told to refuse a live slice
def test_a_lost_device_fails_what_is_left_and_is_reported(tmp_path: Path) -> None:
    lines = output_of(LOSES_THE_DEVICE.format(str(tmp_path))).splitlines()
    outcome = {line.split()[1]: line for line in lines}
    failed = [name for name in verify.GATES if outcome[name].startswith("FAILED")]
    assert failed == ["moves", "repeats", "launches", "coverage"]
    assert "ContextPoisoned" in outcome["moves"]
    assert "retired parameters" in outcome["moves"]


def test_a_defect_in_a_gate_is_not_hidden(judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "moves", lambda _subject: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        judge()


def test_a_text_that_is_too_short(device: Device, corpus: Corpus) -> None:
    with pytest.raises(LowgraphError, match="window"):
        verify.verify(device, micro_plan(batch=10_000), corpus)


def test_every_kind_of_call_is_sorted() -> None:
    calls = {
        "cuGraphLaunch": 1, "cuLaunchKernel": 2, "cuLaunchHostFunc": 3, "cuMemcpyDtoDAsync": 4,
        "cuMemsetD32Async": 5, "cuMemAlloc": 6, "cuMemFreeAsync": 7, "cuMemHostAlloc": 8,
        "cuStreamSynchronize": 9, "cuCtxSynchronize": 10, "cuEventRecord": 11,
    }  # fmt: skip
    assert Sent.of(calls) == Sent(1, 5, 9, 21, 19, (("cuEventRecord", 11),))
    assert "also 11 cuEventRecord" in Sent.of(calls).text()
