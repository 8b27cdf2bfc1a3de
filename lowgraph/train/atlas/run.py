"""The atlas of what the trainer would run, and of logs that were written before."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

from lowgraph.driver import open_device
from lowgraph.errors import ConfigError
from lowgraph.stages import nvtx_ranges
from lowgraph.train import plot
from lowgraph.train.atlas import picture
from lowgraph.train.atlas.atlas import FEWEST_STEPS, Atlas, make_atlas
from lowgraph.train.atlas.rows import write_rows
from lowgraph.train.atlas.saved import changes, read_saved
from lowgraph.train.atlas.subject import Subject
from lowgraph.train.atlas.text import change_lines, summary_text, text_of
from lowgraph.train.config import TrainConfig
from lowgraph.train.datasets import early_plan, plan_for, read_data
from lowgraph.train.parts import Parts
from lowgraph.train.plan import model_of
from lowgraph.train.result import write_json

__all__ = ["run", "summary"]

Say = Callable[[str], None]
_RING_SLOTS = 2  # losses that nobody reads


def run(
    config: TrainConfig,
    say: Say,
    *,
    tsv: Path | None = None,
    arms: Sequence[str] | None = None,
    nvtx: bool = False,
) -> Atlas:
    """Measure the training step of `config`, whose `steps` are those of each measuring run.

    Writes `config.json`, `config.plot` and `tsv` where they name files. nvtx: stages are ranges for
    NVIDIA's profilers while it runs. Raises ConfigError, DeviceUnavailable or BuildError, those of
    bad flags before any device work.
    """
    if config.steps is not None and config.steps < FEWEST_STEPS:
        raise ConfigError(f"--steps must be at least {FEWEST_STEPS}, got {config.steps}")
    _check_file("--tsv", tsv, ("--json", config.json), ("--plot", config.plot))
    if config.plot is not None:
        plot.require(config.plot)
    with nvtx_ranges() if nvtx else nullcontext():
        return _run(config, say, tsv, arms)


def _run(config: TrainConfig, say: Say, tsv: Path | None, arms: Sequence[str] | None) -> Atlas:
    data = read_data(model_of(config), config.data)
    early_plan(config, data)
    device = open_device(config.device)
    plan, data = plan_for(config, device.kind, data)
    say(f"device: {device.spec}, {device.title} ({device.arch})")
    say(
        f"model: {plan.model} {plan.preset}, {plan.precision}, {plan.schedule.steps} steps a "
        "measuring run"
    )
    parts = Parts(device, plan, data, graph=False, ring_slots=_RING_SLOTS)
    try:
        subject = Subject(
            parts.body,
            device,
            parts.pool,
            parts.library,
            parts.stream,
            f"{plan.model} step",
            parts.advance,
        )
        atlas = make_atlas(subject, plan.schedule.steps, arms, config.graph)
    finally:
        parts.close()
    for line in text_of(atlas):
        say(line)
    name = f"{plan.model} {plan.preset}"
    about = {
        "device": device.spec,
        "device_title": device.title,
        "model": plan.model,
        "preset": plan.preset,
        "precision": plan.precision,
        "steps": plan.schedule.steps,
    }
    if tsv is not None:
        write_rows(tsv, atlas.full.rows)
        say(f"wrote {tsv}")
    if config.json is not None:
        write_json(config.json, {**about, **atlas.as_dict()})
        say(f"wrote {config.json}")
    if config.plot is not None:
        picture.draw(config.plot, [name], [atlas.stages])
        say(f"wrote {config.plot}")
    return atlas


def summary(
    logs: Sequence[Path], say: Say, *, json: Path | None = None, picture_to: Path | None = None
) -> None:
    """Set the warm windows of logs side by side; no device is opened. Raises ConfigError.

    logs: files of --tsv or --json. Of the latter the kernels are compared too, the first file's
    with the last one's.
    """
    _check_file("--json", json, ("--plot", picture_to), *(("a log", path) for path in logs))
    _check_file("--plot", picture_to, *(("a log", path) for path in logs))
    if picture_to is not None:
        plot.require(picture_to)
    saved = [read_saved(path) for path in logs]
    found = [one.stages for one in saved]
    changed = changes(saved[0], saved[-1]) if len(saved) > 1 else None
    for line in summary_text([str(path) for path in logs], found):
        say(line)
    for line in [] if changed is None else change_lines(changed):
        say(line)
    if json is not None:
        told = [
            {"log": str(one.path), "stages": [vars(stage) for stage in one.stages]} for one in saved
        ]
        figures = None if changed is None else [vars(one) for one in changed]
        write_json(json, {"logs": told, "changes": figures})
        say(f"wrote {json}")
    if picture_to is not None:
        picture.draw(picture_to, [path.stem for path in logs], found)
        say(f"wrote {picture_to}")


def _check_file(flag: str, path: Path | None, *others: tuple[str, Path | None]) -> None:
    """Refuse a file that cannot be written, or is another one of the run, before it begins."""
    if path is None:
        return
    folder = path.absolute().parent
    if path.is_dir():
        raise ConfigError(f"{flag} {path} is a folder; give a file name")
    if not folder.is_dir():
        raise ConfigError(f"{flag} {path}: {folder} is no folder that is there")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(f"{flag} {path}: {folder} may not be written")
    for other, taken in others:
        if taken is not None and os.path.realpath(taken) == os.path.realpath(path):
            raise ConfigError(f"{flag} and {other} must be different paths")
