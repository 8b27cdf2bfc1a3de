"""What a run says: its header, a line a lap, and its end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict

from lowgraph.memory import counted, readable
from lowgraph.train import checkpoint, weights_out
from lowgraph.train.datasets import Dataset
from lowgraph.train.logs import LapFigures, RunLog
from lowgraph.train.loop import Trainer
from lowgraph.train.plan import Schedule
from lowgraph.train.result import Result
from lowgraph.train.step_log import Lap

__all__ = ["Progress", "learnt_by_heart", "say_end", "say_header", "which_weights"]

Say = Callable[[str], None]

_PRECISIONS = {
    "fp32": "float32 throughout",
    "tf32": "products in TF32, everything else float32",
    "bf16": "products and what they read in bfloat16; parameters, sums and the rest float32",
}
_SLOW_ON_HOST = "; the host device emulates the tensor cores, about ten times slower than fp32"


def say_header(result: Result, trainer: Trainer, data: Dataset, say: Say) -> None:
    """Say all that the run was settled to be, before its first step."""
    plan, schedule = trainer.plan, trainer.plan.schedule
    shape = ", ".join(f"{name} {value}" for name, value in asdict(plan.shape).items())
    say(f"data: {data.describe()}")
    say(f"model: {plan.model} {plan.preset}, {result.params} parameters: {shape}")
    say(result.gemm)
    slow = _SLOW_ON_HOST if (result.precision, result.device) == ("bf16", "host") else ""
    say(f"precision: {_PRECISIONS[result.precision]}{slow}")
    windows = _windows(schedule, data)
    say(
        f"run: steps {trainer.first_step + 1} to {schedule.steps}, {windows} each, "
        f"seed {schedule.seed}, learning rate {schedule.learning_rate:g} after {schedule.warmup} "
        f"steps, weight decay {schedule.weight_decay:g}"
    )
    say(f"update: {_update(schedule)}")
    graph = "on, from the second step" if trainer.config.graph else "off: --no-graph"
    say(f"graph: {graph}")
    say(trainer.parts.pool.stats().text())


def _windows(schedule: Schedule, data: Dataset) -> str:
    windows = counted(schedule.batch, "row" if data.kind == "classes" else "window")
    if schedule.accumulate == 1:
        return windows
    return f"{schedule.accumulate} micro-batches of {windows}"


def _update(schedule: Schedule) -> str:
    """What lies between the gradients and the next parameters, beside AdamW."""
    end = "" if schedule.schedule == "constant" else f" to {schedule.final_share:g} of the peak"
    clip, decay = schedule.clip_norm, schedule.ema_decay
    clips = f"gradients clipped to norm {clip:g}" if clip else "no clipping"
    averages = "average of the weights with decay {:g}" if decay else "no average of the weights"
    return f"{schedule.schedule} schedule{end}, {clips}, {averages.format(decay)}"


class Progress:
    """Says a line a lap, an evaluation, a checkpoint; once it is known what became of the graph.

    log: where the same figures go, or None.
    """

    def __init__(self, say: Say, data: Dataset, log: RunLog | None) -> None:
        self._say = say
        self._log = log
        self._data = data
        self._announced = False
        self._graph_told = False

    def lap(self, trainer: Trainer, lap: Lap) -> None:
        """Say the last loss and gradient norm of a lap, and its speed; what was masked in it."""
        if not self._graph_told and _graph_is_settled(trainer):
            self._graph_told = True
            self._say(_graph_line(trainer))
        if not self._announced:
            self._announced = True
            self._say(f"loss in {self._data.unit}; {self._data.terms}")
        masked = [count for count in lap.masked if count]
        if masked:
            self._say(_masked(sum(masked), len(masked)))
        schedule = trainer.plan.schedule
        tokens = schedule.windows * trainer.plan.shape.context
        self._say(
            f"step {lap.last:6d}/{schedule.steps}  loss {lap.losses[-1]:.4f}  "
            f"norm {lap.norms[-1]:8.3g}  "
            f"{tokens / lap.ms * 1000:10.0f} {self._data.tokens}/s  {lap.ms:9.3f} ms/step"
        )

        if self._log is not None:
            figures = LapFigures(
                lap.last,
                loss=lap.losses[-1],
                gradient_norm=lap.norms[-1],
                learning_rate=schedule.rate(lap.last),
                step_ms=lap.ms,
            )
            self._log.write(figures)

    def heldout(self, trainer: Trainer, loss: float) -> None:
        """Say the held-out loss of an evaluation on the way; the end's has a line of its own."""
        self.note_heldout(trainer, loss)
        self._say(
            f"step {trainer.step:6d}/{trainer.plan.schedule.steps}  held-out loss {loss:.4f}"
            f"{which_weights(trainer)}"
        )

    def note_heldout(self, trainer: Trainer, loss: float) -> None:
        """Log the held-out loss of any evaluation."""
        if self._log is not None:
            self._log.write(LapFigures(trainer.step, heldout_loss=loss))

    def checkpoint(self, trainer: Trainer) -> None:
        """Write one, if the run has a folder for it."""
        folder = trainer.config.checkpoint
        if folder is not None:
            written = checkpoint.write(folder, trainer.checkpoint())
            self._say(f"checkpoint: step {trainer.step} in {written}")


def which_weights(trainer: Trainer) -> str:
    """Which weights something is of, in brackets; nothing in a run that has no choice."""
    return f" ({weights_out.KINDS[trainer.weights_out]})" if trainer.plan.schedule.averages else ""


def _masked(elements: int, steps: int) -> str:
    return (
        f"warning: {counted(elements, 'element')} of the gradients of {counted(steps, 'step')} "
        "were not finite and counted as 0; try a lower --lr, or --clip 1"
    )


def _graph_is_settled(trainer: Trainer) -> bool:
    """Whether the step that would be recorded, the second, is behind, or will not come."""
    done = trainer.step - trainer.first_step
    return done > 1 or trainer.step == trainer.plan.schedule.steps or not trainer.config.graph


def _graph_line(trainer: Trainer) -> str:
    report = trainer.parts.graph_step.report()
    if trainer.config.graph and trainer.step - trainer.first_step < 2:
        return "graph: none; it is recorded at the second step, and this run has one"
    if report.captures == 0:
        return f"graph: none ({report.why_no_graph}); every step launches its kernels"
    return (
        f"graph: {counted(report.nodes, 'node')} captured, retaining "
        f"{readable(report.retained_bytes)}; priming: {report.primed.text()}"
    )


def learnt_by_heart(result: Result) -> bool:
    """Whether held-out data miss a baseline that the last training losses pass by a tenth."""
    last = result.losses[-max(1, len(result.losses) // 10) :]
    heldout, bar = result.heldout_loss, result.baseline_loss
    if not last or heldout is None or not math.isfinite(heldout):
        return False
    return heldout >= bar and sum(last) / len(last) < 0.9 * bar


def say_end(result: Result, trainer: Trainer, data: Dataset, say: Say) -> None:
    """Say what came out: losses beside the baseline, times, and the report of the graph."""
    if result.interrupted:
        say(f"interrupted after step {result.steps} of {trainer.plan.schedule.steps}")
    heldout, bar, name = trainer.heldout[-1][1], result.baseline_loss, result.baseline
    side = "below" if heldout < bar else "above"
    owner = f"{name}'" if name.endswith("s") else f"{name}'s"
    gap = f"{abs(bar - heldout):.4f} {side} the {owner}"
    if not math.isfinite(heldout):
        gap = "the run diverged; try a lower --lr"
    say(
        f"held-out loss {heldout:.4f} {result.loss_unit}{which_weights(trainer)}, "
        f"{name} {bar:.4f}: {gap}"
    )
    if learnt_by_heart(result):
        say(
            f"held-out loss is not below the {owner}, the training loss is: the data are too few "
            "for this preset and so many steps; give more data, fewer --steps or a smaller --preset"
        )
    if result.masked_steps:
        say(_masked(result.masked_elements, result.masked_steps))
    if result.resumed_from and result.masked_steps_total:
        say(
            f"with the steps before the resume: {counted(result.masked_elements_total, 'element')} "
            f"of {counted(result.masked_steps_total, 'step')} counted as 0"
        )
    if result.step_us is not None:
        warm = result.warm_step_us
        later = "" if warm is None else f"; of steps 50 and later: {warm / 1000:.3f} ms"
        say(f"mean of the steps after the first two: {result.step_us / 1000:.3f} ms, "
            f"{result.tokens_per_s:.0f} {data.tokens}/s{later}")  # fmt: skip
    say(trainer.parts.graph_step.report().text())
    for line in [] if trainer.parts.timers is None else trainer.parts.timers.text():
        say(line)
