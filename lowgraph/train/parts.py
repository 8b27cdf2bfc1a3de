"""Parts: what a run has on its device, made in order and freed in the reverse one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from lowgraph import driver
from lowgraph.blas import Blas
from lowgraph.capture import GraphStep
from lowgraph.capture.passes import to_stderr
from lowgraph.driver import Device
from lowgraph.kernels import Library
from lowgraph.memory import Arena, PersistentPool, download, upload
from lowgraph.models.model import load_arena, save_arena
from lowgraph.models.protocol import TrainableModel
from lowgraph.models.registry import find_model
from lowgraph.ops.control import STEP_OFFSET, read_control
from lowgraph.optim import OPTIMIZERS, Accumulation, GradientNorm, Optimizer
from lowgraph.precision import Precision
from lowgraph.train.checkpoint import Checkpoint
from lowgraph.train.datasets import Dataset, make_feeds
from lowgraph.train.evaluation import Evaluation
from lowgraph.train.feed import Ground
from lowgraph.train.inference import Inference
from lowgraph.train.lead import Lead
from lowgraph.train.plan import Plan
from lowgraph.train.ring import MappedRing
from lowgraph.train.step import TrainingStep
from lowgraph.train.step_log import StepLog
from lowgraph.train.timers import StageLog

__all__ = ["Parts"]

_WHY_OFF = "asked for with --no-graph"


class Parts:
    """Stream, kernels, pool, model, optimizer, feeds, step; ready for the first step.

    Parameters and moments are the plan's initial ones, or those of `resume`; weights: parameters in
    the place of the initial ones. ring_slots: losses that may be unread at once. heldout_batches:
    asked for in an evaluation. weights_out: as TrainConfig has it.
    Raises what its parts raise; then nothing is left behind.

    Attributes
    ----------
    steps_done: issued so far, those before a resume included: what the device will count.
    library_class, pool_class: what kernels are loaded by, and memory taken from.
    total: the sum over micro-batches, None when a step has one.
    model: what is trained. model_out: what evaluation and samples are of: `model`, or a model of
        the average of its weights. evaluation: of `model_out`.
    timers: the stages of the steps of `graph_step`; None unless asked for.
    """

    library_class: Callable[..., Library] = Library
    pool_class: Callable[[Device], PersistentPool] = PersistentPool

    def __init__(
        self,
        device: Device,
        plan: Plan,
        data: Dataset,
        *,
        graph: bool,
        ring_slots: int,
        heldout_batches: int = 1,
        resume: Checkpoint | None = None,
        weights: Mapping[str, npt.NDArray[np.float32]] | None = None,
        timers: bool = False,
        weights_out: str | None = None,
    ) -> None:
        self.steps_done = 0 if resume is None else resume.step
        with ExitStack() as undo:
            self._open(device, undo)
            self._make_model(plan)
            self._make_model_out(plan, weights_out)
            self._make_feeds(plan, data, heldout_batches, undo)
            self._make_step(device, graph, ring_slots, timers, undo)
            self._make_evaluation(device, graph, undo)
            undo.callback(driver.stream.synchronize, self.stream)
            self._fill(plan, resume, weights)
            self._undo = undo.pop_all()

    def advance(self, run: Callable[[], object] | None = None) -> None:
        """The next step, with the host's part of it; returns when it is enqueued.

        run: issues it; default: `graph_step`. Raises what that raises.
        """
        number = self.steps_done + 1
        self.feeds.train.stage(number)
        (self.graph_step if run is None else run)()
        self.feeds.train.mark(number)
        self.steps_done = number

    def advance_eagerly(self) -> None:
        """The next step, launch by launch beside the graph."""
        with self.pool.eager_pass("eager step"):
            self.advance(lambda: self.body(self.stream))

    def tensors(self) -> dict[str, dict[str, npt.NDArray[np.float32]]]:
        """Parameters and optimizer state by a Checkpoint's names. Waits for the steps."""
        kept = {"parameters": self.model.parameters, **self.optimizer.state}
        return {name: save_arena(arena, self.stream) for name, arena in kept.items()}

    def heldout_loss(self) -> float:
        """Held-out loss of the weights that come out, in nats. Waits for it."""
        self._refresh_out()
        return self.evaluation.loss()

    def next_logits(self, tokens: npt.NDArray[np.int32], position: int) -> npt.NDArray[np.float32]:
        """As Inference's, of the weights that come out."""
        self._refresh_out()
        return self._inference.next_logits(tokens, position)

    def _refresh_out(self) -> None:
        if self.model_out is not self.model:  # whose copy the optimizer writes
            self.model_out.refresh_shadow(self.stream)

    def clock(self) -> tuple[int, int]:
        """Steps done and seed, as the control block on the device has them. Waits for the steps."""
        block = read_control(download(self.control, self.stream))
        return block["step"], block["seed"]

    def close(self) -> None:
        """Wait for the device and free everything. Idempotent."""
        self._undo.close()

    def _open(self, device: Device, undo: ExitStack) -> None:
        self.stream = driver.stream.create(priority=driver.stream.greatest_priority())
        undo.callback(driver.stream.destroy, self.stream)
        self.library = self.library_class(device, say=to_stderr)
        self.pool = self.pool_class(device)
        undo.callback(self.pool.close)
        self.blas = Blas(device, self.library, self.stream, self.pool)
        undo.callback(self.blas.close)

    def another_model(
        self, plan: Plan, arenas: tuple[Arena, Arena] | None = None
    ) -> TrainableModel:
        """A model of the plan's, over parameters and gradients of its own, all zero, or these."""
        return find_model(plan.model).build(
            plan.shape,
            library=self.library,
            blas=self.blas,
            pool=self.pool,
            stream=self.stream,
            precision=Precision(plan.precision),
            arenas=arenas,
        )

    def _make_model(self, plan: Plan) -> None:
        self.model = self.another_model(plan)
        gradients, count = self.model.gradients, plan.schedule.accumulate
        self.total = Accumulation(self.library, gradients, count) if count > 1 else None
        make = OPTIMIZERS[find_model(plan.model).optimizer]
        self.optimizer: Optimizer = make(
            self.library,
            self.model.parameters,
            gradients if self.total is None else self.total.gradients,
            self.model.decayed_elements,
            self.stream,
            ema=plan.schedule.averages,
            shadow=self.model.shadow,
        )
        self.norm = GradientNorm(self.library, self.pool, gradients.elements, self.stream)
        block = plan.schedule.control_block(self.steps_done)
        self.control = self.pool.take("control block", block.shape, np.uint8)
        upload(self.control, block, self.stream)

    def _make_model_out(self, plan: Plan, asked: str | None) -> None:
        self.model_out = self.model
        if plan.schedule.weights_out(asked) == "ema":
            assert self.optimizer.ema is not None
            # No backward of it is run: it may share the gradients.
            self.model_out = self.another_model(plan, (self.optimizer.ema, self.model.gradients))
        self._inference = Inference(self.model_out, self.pool, self.stream)

    def _make_feeds(self, plan: Plan, data: Dataset, heldout_batches: int, undo: ExitStack) -> None:
        self._cursor = self.pool.take("held-out cursor", 1, np.int64)
        ground = Ground(
            library=self.library,
            pool=self.pool,
            stream=self.stream,
            context=plan.shape.context,
            windows=plan.schedule.windows,
            batch=plan.schedule.batch,
            seed=plan.schedule.seed,
            heldout_batches=heldout_batches,
            control=self.control,
            step=self.control.address + STEP_OFFSET,
            cursor=self._cursor,
            on_close=undo.callback,
        )
        self.feeds = make_feeds(data, ground)

    def _make_step(
        self, device: Device, graph: bool, ring_slots: int, timers: bool, undo: ExitStack
    ) -> None:
        ring = MappedRing(self.pool, ring_slots)
        self.log = StepLog(ring, self.stream)
        undo.callback(self.log.close)
        self.lead = Lead(self.stream)
        undo.callback(self.lead.close)
        self.body = TrainingStep(
            model=self.model,
            optimizer=self.optimizer,
            total=self.total,
            norm=self.norm,
            library=self.library,
            pool=self.pool,
            feed=self.feeds.train,
            control=self.control,
            ring=ring,
            sides=self.blas.sides,
        )
        self.timers = StageLog(self.body) if timers else None
        if self.timers is not None:
            undo.callback(self.timers.close)
        self.graph_step = GraphStep(
            self.body if self.timers is None else self.timers,
            device=device,
            pool=self.pool,
            library=self.library,
            stream=self.stream,
            label="train step",
            graph=graph,
            why_off=_WHY_OFF,
        )
        undo.callback(self.graph_step.close)

    def _make_evaluation(self, device: Device, graph: bool, undo: ExitStack) -> None:
        self.evaluation = Evaluation(
            "held-out evaluation",
            self.model_out,
            self.feeds.heldout,
            self._cursor,
            self.feeds.batches,
            device=device,
            library=self.library,
            pool=self.pool,
            stream=self.stream,
            graph=graph,
            why_off=_WHY_OFF,
        )
        undo.callback(self.evaluation.close)

    def _fill(
        self,
        plan: Plan,
        resume: Checkpoint | None,
        weights: Mapping[str, npt.NDArray[np.float32]] | None,
    ) -> None:
        if resume is None:
            if weights is None:
                weights = find_model(plan.model).initial_values(plan.shape, plan.schedule.seed)
            self.model.load_state(weights, self.stream)
        else:
            self.model.load_state(resume.parameters, self.stream)
        self.optimizer.parameters_loaded(self.stream)
        if resume is not None:  # behind the line above, which begins the average anew
            for name, arena in self.optimizer.state.items():
                load_arena(arena, getattr(resume, name), self.stream)
            masked = resume.cursor.masked_elements, resume.cursor.masked_steps
            self.norm.set_totals(self.stream, *masked)
        driver.stream.synchronize(self.stream)
