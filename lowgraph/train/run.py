"""A whole run as the command line asks for it: read, check, train, say, write."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict

from lowgraph._version import VERSION
from lowgraph.driver import Device, open_device
from lowgraph.errors import ConfigError
from lowgraph.memory import counted, readable
from lowgraph.train import checkpoint, plot
from lowgraph.train.checkpoint import Checkpoint
from lowgraph.train.config import TrainConfig
from lowgraph.train.datasets import Dataset, check_data, read_data
from lowgraph.train.logs import LapFigures, RunLog, open_log
from lowgraph.train.loop import Trainer, check_resume
from lowgraph.train.plan import make_plan, model_of
from lowgraph.train.result import Result, write_json
from lowgraph.train.sampling import generate
from lowgraph.train.start import prepare_outputs, resume_from, what_is_not_the_same
from lowgraph.train.step_log import Lap

__all__ = ["run"]

Say = Callable[[str], None]
PRECISION = "float32"


def _flushed(text: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ConfigError(f"standard output: {error.strerror or error}") from error


def run(config: TrainConfig, say: Say = _flushed) -> Result:
    """Run `config`; everything people should know goes through `say`, a line or more at a time.

    Raises LowgraphError; of its kinds ConfigError, DeviceUnavailable and BuildError are the user's
    to mend. Files are written whole or not at all.
    """
    if config.plot is not None:
        plot.require(config.plot)
    notes: list[str] = []  # said once the device is, whose line is the first
    resume = None if config.resume is None else resume_from(config.resume, notes.append)
    begun = None if resume is None else resume.plan
    data = read_data(model_of(config, begun), config.data)
    if config.preset is not None or begun is not None:
        # The size does not depend on the device: refuse before it is opened, or even built.
        early = make_plan(config, "", begun)
        check_data(early, data)
        if resume is not None:
            check_resume(resume, config, early, data)
    prepare_outputs(config, notes.append)
    with nullcontext() if config.log is None else open_log(config.log) as log:
        result = _run(config, say, notes, resume, data, log)
    _write_files(config, result, say)
    return result


def _run(
    config: TrainConfig,
    say: Say,
    notes: list[str],
    resume: Checkpoint | None,
    data: Dataset,
    log: RunLog | None,
) -> Result:
    """The run itself, on its device: from the device's line to the report and the sample."""
    device = open_device(config.device)
    begun = None if resume is None else resume.plan
    say(f"device: {device.spec}, {device.title} ({device.arch})")
    plan = make_plan(config, device.kind, begun)
    if resume is not None:
        notes += what_is_not_the_same(resume, plan, device)
    for note in notes:
        say(note)
    progress = _Progress(say, data, log)
    with Trainer(
        device, config, plan, data,
        resume=resume, on_lap=progress.lap, on_heldout=progress.heldout,
        on_checkpoint=progress.checkpoint,
    ) as trainer:  # fmt: skip
        result = _begin(trainer, device, data)
        _say_header(result, trainer, data, say)
        trainer.train()
        progress.checkpoint(trainer)  # first of all: a Ctrl-C from here on ends the run
        progress.note_heldout(trainer, trainer.evaluate())
        _conclude(result, trainer)
        _say_end(result, trainer, say)
        if config.sample:
            result.sample = _sample(trainer, say)
    return result


class _Progress:
    """Says a line a lap, an evaluation, a checkpoint; before the first what became of the graph.

    log: where the same figures go, or None.
    """

    def __init__(self, say: Say, data: Dataset, log: RunLog | None) -> None:
        self._say = say
        self._log = log
        self._data = data
        self._announced = False

    def lap(self, trainer: Trainer, lap: Lap) -> None:
        """Say the last loss of a lap, and its speed."""
        if not self._announced:
            self._announced = True
            self._say(_graph_line(trainer))
            self._say(f"loss in {self._data.unit}; tokens are {self._data.token}")
        schedule = trainer.plan.schedule
        tokens = schedule.batch * trainer.plan.shape.context
        self._say(
            f"step {lap.last:6d}/{schedule.steps}  loss {lap.losses[-1]:.4f}  "
            f"{tokens / lap.ms * 1000:10.0f} tokens/s  {lap.ms:9.3f} ms/step"
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
        self._say(f"step {trainer.step:6d}/{trainer.plan.schedule.steps}  held-out loss {loss:.4f}")

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


def _graph_line(trainer: Trainer) -> str:
    report = trainer.parts.graph_step.report()
    if report.captures == 0:
        return f"graph: none ({report.why_no_graph}); every step launches its kernels"
    return (
        f"graph: {counted(report.nodes, 'node')} captured, retaining "
        f"{readable(report.retained_bytes)}; priming: {report.primed.text()}"
    )


def _begin(trainer: Trainer, device: Device, data: Dataset) -> Result:
    plan, baseline = trainer.plan, data.baseline()
    return Result(
        device=device.spec,
        device_title=device.title,
        arch=device.arch,
        gemm=trainer.parts.blas.describe(),
        precision=PRECISION,
        model=plan.model,
        preset=plan.preset,
        params=trainer.parts.model.parameter_count,
        batch=plan.schedule.batch,
        context=plan.shape.context,
        seed=plan.schedule.seed,
        data=data.source,
        data_bytes=data.nbytes,
        data_sha256=data.sha256,
        baseline=data.baseline_name,
        baseline_loss=baseline,
        bigram_loss=baseline if data.kind == "text" else None,
        loss_unit=data.unit,
        version=VERSION,
        resumed_from=trainer.first_step,
    )


def _say_header(result: Result, trainer: Trainer, data: Dataset, say: Say) -> None:
    plan, schedule = trainer.plan, trainer.plan.schedule
    shape = ", ".join(f"{name} {value}" for name, value in asdict(plan.shape).items())
    say(f"data: {data.describe()}")
    say(f"model: {plan.model} {plan.preset}, {result.params} parameters: {shape}")
    say(result.gemm)
    say(f"precision: {result.precision} throughout")
    say(
        f"run: steps {trainer.first_step + 1} to {schedule.steps}, {schedule.batch} windows each, "
        f"seed {schedule.seed}, learning rate {schedule.learning_rate:g} after {schedule.warmup} "
        f"steps, weight decay {schedule.weight_decay:g}"
    )
    graph = "on, from the second step" if trainer.config.graph else "off: --no-graph"
    say(f"graph: {graph}")
    say(trainer.parts.pool.stats().text())


def _conclude(result: Result, trainer: Trainer) -> None:
    """Fill in what is known at the end."""
    report = trainer.parts.graph_step.report()
    result.steps = trainer.step
    result.losses = trainer.losses
    result.heldout = trainer.heldout
    result.interrupted = trainer.interrupted
    result.graph = "on" if report.captures else f"off: {report.why_no_graph}"
    for name in ("captures", "updates", "replays", "refusals", "launches_eager_step",
                 "library_calls_eager_step", "launches_replay_step", "nodes", "pool_bytes",
                 "retained_bytes"):  # fmt: skip
        setattr(result, name, getattr(report, name))
    if trainer.parts.timers is not None:
        result.stages = trainer.parts.timers.figures()
    evaluated = trainer.parts.evaluation.graph_step.report()
    result.heldout_captures, result.heldout_replays = evaluated.captures, evaluated.replays
    if trainer.step_ms is not None:
        result.step_us = 1000 * trainer.step_ms
        result.tokens_per_s = result.batch * result.context / trainer.step_ms * 1000


def _say_end(result: Result, trainer: Trainer, say: Say) -> None:
    if result.interrupted:
        say(f"interrupted after step {result.steps} of {trainer.plan.schedule.steps}")
    heldout, bar, name = trainer.heldout[-1][1], result.baseline_loss, result.baseline
    side = "below" if heldout < bar else "above"
    gap = f"{abs(bar - heldout):.4f} {side} the {name}'s"
    if not math.isfinite(heldout):
        gap = "the run diverged; try a lower --lr"
    say(f"held-out loss {heldout:.4f} {result.loss_unit}, {name} {bar:.4f}: {gap}")
    if result.step_us is not None:
        say(f"mean of the steps after the first two: {result.step_us / 1000:.3f} ms, "
            f"{result.tokens_per_s:.0f} tokens/s")  # fmt: skip
    say(trainer.parts.graph_step.report().text())
    for line in [] if trainer.parts.timers is None else trainer.parts.timers.text():
        say(line)


def _sample(trainer: Trainer, say: Say) -> str | None:
    config, plan = trainer.config, trainer.plan
    if not math.isfinite(trainer.heldout[-1][1]):
        say("sample: none, the run diverged")
        return None
    text = generate(
        trainer.parts.inference.next_logits,
        plan.shape.context,
        config.sample,
        config.temperature,
        plan.schedule.seed,
    ).decode(errors="replace")
    say(f"sample of {config.sample} bytes at temperature {config.temperature:g}:\n{text}")
    return text


def _write_files(config: TrainConfig, result: Result, say: Say) -> None:
    if config.json is not None:
        write_json(config.json, result.as_dict())
        say(f"figures: {config.json}")
    if config.plot is not None:
        first = result.resumed_from + 1
        plot.draw(
            config.plot,
            result.losses,
            first,
            result.heldout,
            result.baseline_loss,
            baseline=result.baseline,
            unit=result.loss_unit,
        )
        say(f"plot: {config.plot}")
