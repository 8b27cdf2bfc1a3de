"""Trainer: the loop around a GraphStep, cut into laps at which losses are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import TracebackType

import numpy as np
import numpy.typing as npt

from lowgraph.driver import Device
from lowgraph.errors import ConfigError, LowgraphError
from lowgraph.memory import counted
from lowgraph.train.checkpoint import Checkpoint, Cursor
from lowgraph.train.config import TrainConfig
from lowgraph.train.datasets import Dataset, check_data
from lowgraph.train.interrupt import StopRequest
from lowgraph.train.parts import Parts
from lowgraph.train.plan import Plan
from lowgraph.train.snapshot import refuse_changes, snapshot
from lowgraph.train.step_log import Lap, MeanTime

__all__ = ["Trainer", "check_resume", "check_steps_left"]

# The first step primes, the second records and replays; from the third on a step is one replay.
_WARM_STEPS = 2
# Before it a device may still raise its clocks; the mean of a run's own steps behind it is its warm
# time. Its lap ends there.
_STEPS_TO_WARM = 49


class Trainer:
    """One run on one device. Use it in a `with` block: it frees what it made.

    config, plan: what is asked for, and the same complete. resume: the checkpoint to go on from.
    weights: parameters by name to begin with, in place of the plan's initial ones.
    on_lap: told each lap of the trainer, in order, once its losses are read; of the laps that are
        read after a Ctrl-C only the last. on_heldout: told the loss of each evaluation on the way.
    on_checkpoint: called after each `config.checkpoint_every` steps but the last, to write
        `checkpoint()`.
    Raises ConfigError when the data do not fit the model, or the run is not the resumed one
        (check_resume).

    Attributes
    ----------
    first_step: optimizer steps done before this run.
    losses: of each step of this run, in nats. norms: of its gradients, before clipping. masked:
        how many elements of them were not finite.
    weights_out: which weights evaluations, samples and exports are of, "plain" or "ema".
    heldout: (step, loss) of each evaluation.
    interrupted: Ctrl-C ended the loop.
    parts: what the run has on the device.
    """

    def __init__(
        self,
        device: Device,
        config: TrainConfig,
        plan: Plan,
        data: Dataset,
        *,
        resume: Checkpoint | None = None,
        weights: Mapping[str, npt.NDArray[np.float32]] | None = None,
        on_lap: Callable[[Trainer, Lap], None] = lambda trainer, lap: None,
        on_heldout: Callable[[Trainer, float], None] = lambda trainer, loss: None,
        on_checkpoint: Callable[[Trainer], None] = lambda trainer: None,
    ) -> None:
        check_data(plan, data)
        if resume is not None:
            check_resume(resume, config, plan, data)
        self.config = config
        self.plan = plan
        self.losses: list[float] = []
        self.norms: list[float] = []
        self.masked: list[int] = []
        self.heldout: list[tuple[int, float]] = []
        self.weights_out = plan.schedule.weights_out(config.weights_out)
        self.interrupted = False
        self.first_step = 0 if resume is None else resume.step
        self._device = device
        self._data = data
        self._on_lap = on_lap
        self._on_heldout = on_heldout
        self._on_checkpoint = on_checkpoint
        self._stop = StopRequest()
        self._steady = MeanTime(self.first_step + _WARM_STEPS)
        self._warm = MeanTime(self.first_step + _STEPS_TO_WARM)
        self.parts = Parts(
            device,
            plan,
            data,
            graph=config.graph,
            # Two laps may be unread when the host waits for the older one (step_log).
            ring_slots=2 * max(plan.log_every, _WARM_STEPS),
            heldout_batches=config.heldout_batches,
            resume=resume,
            weights=weights,
            timers=config.timers,
            weights_out=self.weights_out,
        )

    def train(self) -> None:
        """Run the steps that are left, or up to Ctrl-C; every loss is read at the return."""
        log = self.parts.log
        log.begin(self.step)
        with self._stop:
            for end in self._lap_ends():
                self._run_to(end)
                self._read(log.lap(self.step))
                self._look_at_stages()
                if self.interrupted:
                    break
                self._pause_at(end)
        self._read(*log.finish())

    def evaluate(self) -> float:
        """Held-out loss of the weights of `weights_out` as they are; noted in `heldout`."""
        loss = self.parts.heldout_loss()
        self.heldout.append((self.step, loss))
        return loss

    def checkpoint(self) -> Checkpoint:
        """The run as it stands. Waits for the steps issued so far."""
        step, seed = self.parts.clock()
        if step != self.step:  # else the file would name a step whose tensors it does not hold
            raise LowgraphError(f"{self.step} steps were issued, the device counts {step}")
        masked = self.masked_in_all()
        cursor = Cursor(step, seed, self._data.sha256, self._data.nbytes, *masked)
        known = {**self.plan.values(), "device": self._device.spec}
        asked = snapshot(self.config, known)
        return Checkpoint(self.plan, asked, cursor, **self.parts.tensors())

    def masked_in_all(self) -> tuple[int, int]:
        """Elements of gradients that were not finite, and steps that had any, of all steps done.

        Those before a resume included. Waits for the steps issued so far.
        """
        stats = self.parts.norm.read(self.parts.stream)
        return stats.masked_total, stats.masked_steps

    @property
    def step(self) -> int:
        """Optimizer steps done, in all."""
        return self.parts.steps_done

    @property
    def step_ms(self) -> float | None:
        """Mean milliseconds of a step, on the device's clock, after the first two of the run.

        None when it had no more than those.
        """
        return self._steady.ms

    @property
    def warm_step_ms(self) -> float | None:
        """As `step_ms`, of the run's steps from the 50th on; None when it had fewer."""
        return self._warm.ms

    def close(self) -> None:
        """Wait for the device and free everything. Idempotent."""
        self.parts.close()

    def __enter__(self) -> Trainer:
        """Return the trainer."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it; an error in flight is not hidden by what closing then raises."""
        try:
            self.close()
        except LowgraphError:
            if error is None:
                raise

    def _lap_ends(self) -> Iterator[int]:
        """Step numbers at which a lap ends: where a mean begins, at each cadence, at the end."""
        end, steps = self.first_step, self.plan.schedule.steps
        means = (self._steady.first, self._warm.first)
        asked = (self.plan.log_every, self.config.eval_every, self.config.checkpoint_every)
        cadences = [every for every in asked if every]
        while end < steps:
            following = [end - end % every + every for every in cadences]
            end = min(steps, *following, *(first for first in means if end < first))
            yield end

    def _run_to(self, end: int) -> None:
        while self.step < end and not self._stop.made:
            self.parts.advance()
            self.parts.lead.issued()
        self.interrupted = self._stop.made and self.step < self.plan.schedule.steps

    def _read(self, *laps: Lap | None) -> None:
        for lap in laps:
            if lap is None:
                continue
            self.losses += lap.losses
            self.norms += lap.norms
            self.masked += lap.masked
            self._steady.add(lap)
            self._warm.add(lap)
            if not self._stop.made or lap.last == self.step:
                self._on_lap(self, lap)

    def _look_at_stages(self) -> None:
        """With --timers: wait for the lap's last step; the time of that is no lap's."""
        timers = self.parts.timers
        if timers is None or self.step == self.first_step:
            return
        self._read(*self.parts.log.finish())
        timers.sample(self.step)
        self.parts.log.begin(self.step)

    def _pause_at(self, step: int) -> None:
        """Write and evaluate where it is time to; the end of the run has both of its own."""
        if step == self.plan.schedule.steps:
            return
        writes = _is_due(step, self.config.checkpoint_every)
        evaluates = _is_due(step, self.config.eval_every)
        if writes or evaluates:
            self._read(*self.parts.log.finish())
            if writes:
                self._on_checkpoint(self)
            if evaluates:
                self._on_heldout(self, self.evaluate())
            self.parts.log.begin(self.step)


def _is_due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def check_resume(resume: Checkpoint, config: TrainConfig, plan: Plan, data: Dataset) -> None:
    """Raise ConfigError, saying what differs, when the run cannot go on from `resume`."""
    refuse_changes(resume.config, snapshot(config, plan.values()))
    if resume.cursor.data_sha256 != data.sha256:
        kept = resume.config["data"]
        was = "none, and so the default data" if kept is None else kept
        raise ConfigError(
            f"the {data.kind} is not the resumed run's: {data.nbytes} bytes of sha256 "
            f"{data.sha256}, the checkpoint has {resume.cursor.data_bytes} of "
            f"{resume.cursor.data_sha256}; give the same --data; the resumed run had {was}"
        )
    check_steps_left(resume, plan.schedule.steps)


def check_steps_left(resume: Checkpoint, steps: int) -> None:
    """Raise ConfigError when a run of `steps` in all has none left."""
    if resume.step >= steps:
        raise ConfigError(
            f"the checkpoint has {counted(resume.step, 'step')} done; --steps {steps} leaves none: "
            "give more --steps"
        )
