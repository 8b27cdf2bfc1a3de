"""The held-out evaluation: its numbers, and the graph of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowgraph import counters
from lowgraph.driver import Device
from lowgraph.train.data import Corpus
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
        # Beside the replays: the cursor is set to 0, and the losses are read, once.
        assert (counts.graph_launches, counts.launches, counts.allocations) == (4, 0, 0)
        assert (counts.fills, counts.copies, counts.syncs) == (1, 1, 1)
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
