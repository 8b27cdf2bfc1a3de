"""A whole run as the command line asks for it: read, check, train, say, write."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext

from lowgraph._version import VERSION
from lowgraph.driver import Device, open_device
from lowgraph.errors import ConfigError
from lowgraph.models import huggingface
from lowgraph.precision import Precision
from lowgraph.train import plot
from lowgraph.train.checkpoint import Checkpoint
from lowgraph.train.checks import naming
from lowgraph.train.config import TrainConfig
from lowgraph.train.datasets import Dataset, early_plan, plan_for, read_data
from lowgraph.train.logs import RunLog, open_log
from lowgraph.train.loop import Trainer, check_resume, check_steps_left
from lowgraph.train.plan import make_plan, model_of
from lowgraph.train.result import Result, write_json
from lowgraph.train.said import Progress, say_end, say_header, which_weights
from lowgraph.train.sampling import generate
from lowgraph.train.start import (
    initial_weights,
    prepare_outputs,
    resume_from,
    what_is_not_the_same,
    what_the_data_changed,
    with_data_of,
)

__all__ = ["run"]

Say = Callable[[str], None]


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
    if resume is not None and begun is not None:
        if (
            config.steps is not None
        ):  # first: its warm-up is longer than such a run, which is not why
            check_steps_left(resume, config.steps)
        make_plan(config, "", begun)  # says what differs, before data are read for another model
        config.check_model(begun.model)
        config = with_data_of(config, resume)
    data = read_data(model_of(config, begun), config.data)
    early = early_plan(config, data, begun)
    if resume is not None and early is not None:
        check_resume(resume, config, *early)
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
    plan, data = plan_for(config, device.kind, data, begun)
    notes += what_the_data_changed(plan)
    if resume is not None:
        notes += what_is_not_the_same(resume, plan, device)
    weights = initial_weights(config, plan, notes.append)
    for note in notes:
        say(note)
    progress = Progress(say, data, log)
    with Trainer(
        device, config, plan, data,
        resume=resume, weights=weights, on_lap=progress.lap, on_heldout=progress.heldout,
        on_checkpoint=progress.checkpoint,
    ) as trainer:  # fmt: skip
        result = _begin(trainer, device, data)
        say_header(result, trainer, data, say)
        trainer.train()
        progress.checkpoint(trainer)  # first of all: a Ctrl-C from here on ends the run
        _export(trainer, say)
        progress.note_heldout(trainer, trainer.evaluate())
        _conclude(result, trainer)
        say_end(result, trainer, data, say)
        if config.sample:
            result.sample = _sample(trainer, say)
    return result


def _begin(trainer: Trainer, device: Device, data: Dataset) -> Result:
    plan, baseline = trainer.plan, data.baseline()
    return Result(
        device=device.spec,
        device_title=device.title,
        arch=device.arch,
        gemm=trainer.parts.blas.describe(Precision(plan.precision)),
        precision=plan.precision,
        model=plan.model,
        preset=plan.preset,
        params=trainer.parts.model.parameter_count,
        batch=plan.schedule.batch,
        accumulate=plan.schedule.accumulate,
        clip_norm=plan.schedule.clip_norm,
        ema_decay=plan.schedule.ema_decay,
        schedule=plan.schedule.schedule,
        weights_out=trainer.weights_out,
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


def _conclude(result: Result, trainer: Trainer) -> None:
    """Fill in what is known at the end."""
    report = trainer.parts.graph_step.report()
    result.steps = trainer.step
    result.losses = trainer.losses
    result.grad_norms = trainer.norms
    result.masked_elements = sum(trainer.masked)
    result.masked_steps = sum(1 for count in trainer.masked if count)
    result.masked_elements_total, result.masked_steps_total = trainer.masked_in_all()
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
        tokens = trainer.plan.schedule.windows * result.context
        result.tokens_per_s = tokens / trainer.step_ms * 1000
    if trainer.warm_step_ms is not None:
        result.warm_step_us = 1000 * trainer.warm_step_ms


def _sample(trainer: Trainer, say: Say) -> str | None:
    config, plan = trainer.config, trainer.plan
    if not math.isfinite(trainer.heldout[-1][1]):
        say("sample: none, the run diverged")
        return None
    text = generate(
        trainer.parts.next_logits,
        plan.shape.context,
        config.sample,
        config.temperature,
        plan.schedule.seed,
    ).decode(errors="replace")
    say(
        f"sample of {config.sample} bytes at temperature {config.temperature:g}"
        f"{which_weights(trainer)}:\n{text}"
    )
    return text


def _export(trainer: Trainer, say: Say) -> None:
    folder, plan = trainer.config.export, trainer.plan
    if folder is not None:
        with naming("export"):
            weights = trainer.checkpoint().weights(trainer.weights_out)
            huggingface.save(folder, plan.model, plan.shape, weights)
        say(f"weights: written to {folder}{which_weights(trainer)}")


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
