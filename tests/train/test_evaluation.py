"""The held-out evaluation: its numbers, and the graph of its own."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from lowgraph import counters
from lowgraph.driver import Device, memory
from lowgraph.driver import stream as driver_stream
from lowgraph.train.config import TrainConfig
from lowgraph.train.data import Corpus
from lowgraph.train.evaluation import Evaluation
from lowgraph.train.interrupt import StopRequest
from lowgraph.train.loop import Trainer
from tests.capture.bodies import SOURCE
from tests.train.heldout import heldout_loss
from tests.train.runs import micro_corpus, micro_plan, trained

pytestmark = pytest.mark.both


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return micro_corpus(tmp_path)


def test_the_heldout_loss_is_that_of_the_model(device: Device, corpus: Corpus) -> None:
    """Against the NumPy reference on the windows that the plan names."""
    plan = micro_plan()
    with trained(device, corpus, plan) as trainer:
        ours = trainer.evaluate()
        assert trainer.evaluate() == ours
        weights = trainer.parts.tensors()["parameters"]
    assert ours == pytest.approx(heldout_loss(plan, corpus, weights), rel=1e-6)


def test_every_batch_of_an_evaluation_is_one_replay(device: Device, corpus: Corpus) -> None:
    """Of a graph of its own; that of the step is as it was, and the step goes on."""
    with trained(device, corpus, micro_plan()) as trainer:
        first = trainer.evaluate()
        with counters.scope() as counts:
            assert trainer.evaluate() == first
        # Beside the replays: the cursor is set to 0, and the losses are read, once; and marks, of
        # which slow batches have one each, to run no further ahead.
        assert (counts.graph_launches, counts.launches, counts.allocations) == (4, 0, 0)
        assert (counts.fills, counts.copies) == (1, 1) and 1 <= counts.syncs <= 1 + 4
        report = trainer.parts.evaluation.graph_step.report()
        assert (report.captures, report.replays, report.refusals) == (1, 7, 0)
        graph, before = trainer.parts.graph_step.graph, trainer.parts.graph_step.report()
        trainer.parts.advance()
        after = trainer.parts.graph_step.report()
        assert graph is trainer.parts.graph_step.graph
        assert (after.replays, after.captures) == (before.replays + 1, before.captures)
        assert trainer.evaluate() != first


def test_an_evaluation_without_a_graph_gives_the_same_numbers(
    device: Device, corpus: Corpus
) -> None:
    found = []
    for graph in (True, False):
        with trained(device, corpus, micro_plan(), graph=graph, eval_every=3) as trainer:
            trainer.evaluate()
            found.append(trainer.heldout)
            captures = trainer.parts.evaluation.graph_step.report().captures
            assert captures == (1 if graph else 0)
    assert found[0] == found[1] and len(found[0]) == 4


class Counted:
    """Counts the batches of an evaluation."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.count = 0
        self._run = evaluation.graph_step

    def __call__(self) -> None:
        self._run()
        self.count += 1

    def wait_until_none_comes(self) -> None:
        """The host waits, or has issued them all."""
        seen = -1
        while seen != self.count or not seen:
            seen = self.count
            time.sleep(0.3)


@pytest.mark.parametrize("second", [False, True])
def test_a_second_ctrl_c_ends_a_running_evaluation(
    device: Device, corpus: Corpus, second: bool
) -> None:
    """Pressed while the device stands still: the host is near it, where it can be interrupted."""
    config = TrainConfig(heldout_batches=400)
    with Trainer(device, config, micro_plan(), corpus) as trainer, held(trainer) as let_go:
        evaluation = trainer.parts.evaluation
        batches = evaluation._losses.elements
        assert batches > 100, "else no host would be far ahead"
        evaluation._lead.every = 1  # as where batches are slow
        whole, evaluation.graph_step = evaluation.graph_step, Counted(evaluation)  # type: ignore[assignment]
        counted: Counted = evaluation.graph_step  # type: ignore[assignment]
        issued = []

        def press() -> None:
            counted.wait_until_none_comes()
            issued.append(counted.count)
            os.kill(os.getpid(), signal.SIGINT)
            let_go()

        with StopRequest() as stop:
            if second:
                os.kill(os.getpid(), signal.SIGINT)
            thread = threading.Thread(target=press)
            thread.start()
            with pytest.raises(KeyboardInterrupt) if second else nullcontext():
                trainer.evaluate()
            thread.join()
        evaluation.graph_step = whole
        assert stop.made and 1 <= issued[0] <= 3
        assert counted.count == (issued[0] if second else batches)
        trainer.evaluate()  # nothing of it is left behind


@contextmanager
def held(trainer: Trainer) -> Iterator[Callable[[], None]]:
    """The trainer's stream stands still until the function is called, or the block ends."""
    trainer.evaluate()  # captured: a window waits for nothing that a held stream would end
    pinned = memory.host_alloc(4)
    flag = ctypes.c_int.from_address(pinned)
    flag.value = 0
    hold = trainer.parts.library.kernel(SOURCE, "hold")
    hold(trainer.parts.stream, 1, 1, memory.host_device_pointer(pinned))

    def let_go() -> None:
        flag.value = 1

    try:
        yield let_go
    finally:
        let_go()
        driver_stream.synchronize(trainer.parts.stream)
        memory.host_free(pinned)
