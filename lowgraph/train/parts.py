"""Parts: what a run has on its device, made in order and freed in the reverse one."""

from __future__ import annotations

import sys
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from lowgraph import driver
from lowgraph.blas import Blas
from lowgraph.capture import GraphStep
from lowgraph.driver import Device
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, download, upload
from lowgraph.models import CharLM
from lowgraph.models.model import load_arena, save_arena
from lowgraph.models.parameters import initial_values
from lowgraph.ops.control import read_control
from lowgraph.optim import AdamW
from lowgraph.train.checkpoint import Checkpoint
from lowgraph.train.data import Corpus
from lowgraph.train.inference import Inference
from lowgraph.train.plan import Plan
from lowgraph.train.ring import MappedRing
from lowgraph.train.step import TrainingStep
from lowgraph.train.step_log import StepLog

__all__ = ["Parts"]


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Parts:
    """Stream, kernels, pool, model, optimizer, texts, step; ready for the first step.

    Parameters and moments are the plan's initial ones, or those of `resume`. ring_slots: losses
    that may be unread at once. Raises what its parts raise; then nothing is left behind.
    """

    def __init__(
        self,
        device: Device,
        plan: Plan,
        corpus: Corpus,
        *,
        graph: bool,
        ring_slots: int,
        resume: Checkpoint | None = None,
    ) -> None:
        with ExitStack() as undo:
            self._open(device, undo)
            self._make_model(plan, corpus)
            self._make_step(device, plan, graph, ring_slots, undo)
            self._fill(plan, corpus, resume)
            self._undo = undo.pop_all()

    def tensors(self) -> dict[str, dict[str, npt.NDArray[np.float32]]]:
        """Parameters and moments by the names a Checkpoint gives them. Waits for the steps."""
        return {
            "parameters": self.model.state(self.stream),
            "moment1": save_arena(self.optimizer.moment1, self.stream),
            "moment2": save_arena(self.optimizer.moment2, self.stream),
        }

    def clock(self) -> tuple[int, int]:
        """Steps done and seed, as the control block on the device has them. Waits for the steps."""
        block = read_control(download(self.control, self.stream))
        return block["step"], block["seed"]

    def close(self) -> None:
        """Wait for the device and free everything. Idempotent."""
        self._undo.close()

    def _open(self, device: Device, undo: ExitStack) -> None:
        self.stream = driver.stream.create()
        undo.callback(driver.stream.destroy, self.stream)
        self.library = Library(device, say=_to_stderr)
        self.pool = PersistentPool(device)
        undo.callback(self.pool.close)
        self.blas = Blas(device, self.library, self.stream, self.pool)
        undo.callback(self.blas.close)

    def _make_model(self, plan: Plan, corpus: Corpus) -> None:
        pool, stream = self.pool, self.stream
        self.model = CharLM(
            plan.shape, library=self.library, blas=self.blas, pool=pool, stream=stream
        )
        self.optimizer = AdamW(
            self.library,
            self.model.parameters,
            self.model.gradients,
            self.model.decayed_elements,
            stream,
        )
        self.control = pool.take("control block", plan.schedule.control_block(0).shape, np.uint8)
        self.text = pool.take("text", corpus.train.shape, np.uint8)
        self.heldout_text = pool.take("held-out text", corpus.heldout.shape, np.uint8)

    def _make_step(
        self, device: Device, plan: Plan, graph: bool, ring_slots: int, undo: ExitStack
    ) -> None:
        ring = MappedRing(self.pool, ring_slots)
        self.log = StepLog(ring, self.stream)
        undo.callback(self.log.close)
        self.inference = Inference(
            self.model, self.library, self.pool, self.heldout_text, self.stream
        )
        self.body = TrainingStep(
            model=self.model,
            optimizer=self.optimizer,
            library=self.library,
            pool=self.pool,
            text=self.text,
            control=self.control,
            ring=ring,
            batch=plan.schedule.batch,
        )
        self.graph_step = GraphStep(
            self.body,
            device=device,
            pool=self.pool,
            library=self.library,
            stream=self.stream,
            label="train step",
            graph=graph,
            why_off="asked for with --no-graph",
        )
        undo.callback(self.graph_step.close)
        undo.callback(driver.stream.synchronize, self.stream)

    def _fill(self, plan: Plan, corpus: Corpus, resume: Checkpoint | None) -> None:
        step = 0 if resume is None else resume.step
        upload(self.control, plan.schedule.control_block(step), self.stream)
        upload(self.text, corpus.train, self.stream)
        upload(self.heldout_text, corpus.heldout, self.stream)
        if resume is None:
            initial = initial_values(plan.shape, plan.schedule.seed)
            self.model.load_state(initial, self.stream)
        else:
            self.model.load_state(resume.parameters, self.stream)
            load_arena(self.optimizer.moment1, resume.moment1, self.stream)
            load_arena(self.optimizer.moment2, resume.moment2, self.stream)
        driver.stream.synchronize(self.stream)
