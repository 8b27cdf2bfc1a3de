"""TrainConfig: everything that a run is asked to do, checked before any device work."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, fields
from pathlib import Path

from lowgraph.errors import ConfigError
from lowgraph.models import huggingface
from lowgraph.models.registry import DEFAULT_MODEL, find_model, find_preset
from lowgraph.ops.control import SCHEDULES
from lowgraph.precision import Precision
from lowgraph.train import weights_out
from lowgraph.train.checks import above_zero, at_least, check_folder, flag, naming

__all__ = [
    "DEFAULT_PRECISION",
    "MAX_LOG_EVERY",
    "ONE_BATCH",
    "TrainConfig",
    "check_warmup",
]

DEFAULT_PRECISION = str(Precision.FP32)
MAX_LOG_EVERY = 1_000_000
ONE_BATCH = (
    "a graph is recorded for one number of rows, and every step uploads as many; give one number, "
    "and pad what is shorter"
)
"""Why a batch whose size varies from step to step is refused."""


@dataclass(frozen=True)
class TrainConfig:
    """What the flags say. None leaves a value to the checkpoint resumed from, else to the preset.

    Attributes
    ----------
    device: "auto", "host", "cuda" or "cuda:N".
    model, preset: which model (None: DEFAULT_MODEL), and which of its sizes (None: the device's
        default size).
    precision: of matrix products, a Precision's word (None: DEFAULT_PRECISION).
    steps: optimizer steps in all, those done before a resume included.
    batch: windows in a step.
    data: for a model of text a file or a folder, None the standard library of the running Python;
        for one of series a .csv or .npy file, None a recording that comes with matplotlib; for one
        of classes such a file, None a drawn set.
    seed: of the initial weights, the batches and the samples.
    learning_rate: the peak. warmup: steps that rise to it.
    weight_decay: of weights and embeddings.
    clip_norm: limit of the gradients' global norm; 0 clips nothing.
    ema_decay: of the average of the weights; 0 keeps none.
    weights_out: which weights held-out evaluation, sample and export are of, one of
        weights_out.KINDS (None: the average where one is kept).
    accumulate: micro-batches of a step, each of `batch` windows; the step is that of one batch of
        all of them.
    schedule: of the learning rate after the warm-up, one of ops.control.SCHEDULES.
    final_share: of the peak, where a schedule that falls ends.
    log_every: steps between two readings of the losses, each with a progress line.
    eval_every: steps between held-out evaluations; 0 is at the end only.
    heldout_batches: fixed batches of an evaluation.
    graph: record the step as one CUDA graph.
    sample: bytes to generate at the end; `temperature` divides the logits.
    json, plot: files to write. log: a CSV file or TensorBoard's folder, written lap by lap.
    timers: time the stages of the step, once a lap.
    checkpoint: a folder to write to, at the end and each `checkpoint_every` steps (0: at the end
        only). resume: a folder, or one file of it, to go on from.
    weights: a Hugging Face folder to take the initial weights from. export: one to write at the
        end; not there yet, or empty.

    A resumed run may change what snapshot.MAY_CHANGE names.

    Raises ConfigError, naming the flag, on a value or a combination that no run can have.
    """

    device: str = "auto"
    model: str | None = None
    preset: str | None = None
    precision: str | None = None
    steps: int | None = None
    batch: int | None = None
    data: Path | None = None
    seed: int | None = None
    learning_rate: float | None = None
    warmup: int | None = None
    weight_decay: float | None = None
    clip_norm: float | None = None
    ema_decay: float | None = None
    accumulate: int | None = None
    schedule: str | None = None
    final_share: float | None = None
    log_every: int | None = None
    eval_every: int = 0
    heldout_batches: int = 64
    graph: bool = True
    sample: int = 0
    temperature: float = 0.8
    json: Path | None = None
    plot: Path | None = None
    log: Path | None = None
    timers: bool = False
    checkpoint: Path | None = None
    checkpoint_every: int = 0
    resume: Path | None = None
    weights: Path | None = None
    export: Path | None = None
    weights_out: str | None = None

    def __post_init__(self) -> None:
        self._check_kinds()
        self._check_names()
        for label in ("steps", "batch", "accumulate", "log_every", "heldout_batches"):
            at_least(label, getattr(self, label), 1)
        if self.log_every is not None and self.log_every > MAX_LOG_EVERY:
            raise ConfigError(
                f"--log-every must be at most {MAX_LOG_EVERY}, got {self.log_every}: the losses of "
                "the steps between two readings wait in pinned memory"
            )
        for label in ("warmup", "eval_every", "sample", "seed", "checkpoint_every"):
            at_least(label, getattr(self, label), 0)
        for label in ("learning_rate", "temperature"):
            above_zero(label, getattr(self, label))
        if self.weight_decay is not None and not 0.0 <= self.weight_decay <= 1.0:
            raise ConfigError(f"--weight-decay must be from 0 to 1, got {self.weight_decay}")
        if self.steps is not None and self.warmup is not None:
            check_warmup(self.warmup, self.steps)
        self._check_update()
        self._check_outputs()

    def _check_kinds(self) -> None:
        """A program's `steps=1e3`, unlike the command line's, has met no parser yet."""
        for field in fields(self):
            kind, value = str(field.type).removesuffix(" | None"), getattr(self, field.name)
            fits = type(value) is int if kind == "int" else isinstance(value, (int, float))
            if kind in ("int", "float") and value is not None and not fits:
                wanted = "a whole number" if kind == "int" else "a number"
                many = field.name == "batch" and (callable(value) or hasattr(value, "__iter__"))
                why = f": {ONE_BATCH}" if many else ""
                raise ConfigError(f"{flag(field.name)} must be {wanted}, got {value!r}{why}")

    def _check_update(self) -> None:
        """What lies between the gradients and the next parameters (docs/optimizer.md)."""
        clip, decay, share = self.clip_norm, self.ema_decay, self.final_share
        if clip is not None and not 0.0 <= clip < math.inf:
            raise ConfigError(f"--clip must be a finite number, 0 (off) or more, got {clip}")
        if decay is not None and not 0.0 <= decay < 1.0:
            raise ConfigError(f"--ema must be from 0 (off) to below 1, got {decay}")
        # Without --ema a resumed run's decay is its own, which is not known yet.
        averages = bool(decay) or self.resume is not None
        weights_out.check(self.weights_out, averages=averages)
        if self.schedule is not None and self.schedule not in SCHEDULES:
            names = ", ".join(SCHEDULES)
            raise ConfigError(f"unknown --schedule {self.schedule!r}; there are {names}")
        if share is not None and not 0.0 <= share <= 1.0:
            raise ConfigError(f"--final-share must be from 0 to 1, got {share}")
        if share is not None and self.schedule == "constant":
            raise ConfigError(
                f"--final-share {share} has no use with --schedule constant, which never falls; "
                "leave one of them out"
            )

    def _check_names(self) -> None:
        # Without a model it is the resumed run's, which is not known yet.
        if self.model is not None or self.resume is None:
            self.check_model(self.model or DEFAULT_MODEL)
        words = [str(each) for each in Precision]
        if self.precision is not None and self.precision not in words:
            raise ConfigError(f"unknown precision {self.precision!r}; use {', '.join(words)}")
        if self.device not in ("auto", "host", "cuda") and not _is_cuda_index(self.device):
            raise ConfigError(f"unknown device {self.device!r}; use auto, host, cuda or cuda:N")
        for label in ("seed", "steps"):  # 64-bit integers on the device
            value = getattr(self, label)
            if value is not None and value >= 2**63:
                raise ConfigError(f"{flag(label)} must be below 2**63, got {value}")

    @property
    def device_kind(self) -> str | None:
        """The kind of the device, "host" or "cuda"; None while `auto` has it open."""
        return None if self.device == "auto" else self.device.partition(":")[0]

    def check_model(self, model: str) -> None:
        """Raise ConfigError for a setting that the model cannot have."""
        kind = find_model(model).data
        if self.preset is not None:
            find_preset(model, self.preset)
        if self.sample and kind != "text":
            raise ConfigError(
                f"--sample {self.sample}: {model} is trained on {kind} and writes no text; leave "
                "it out"
            )
        for label in ("weights", "export"):
            if getattr(self, label) is not None:
                with naming(label, ": "):
                    huggingface.check_model(model)

    def _check_outputs(self) -> None:
        """A run of hours must not find out at its end that its folder is not there."""
        for last in ("checkpoint", "resume"):  # which may be one folder
            labels = ("data", "json", "plot", "log", last)
            paths = [getattr(self, label) for label in labels]
            named = [os.path.realpath(path) for path in paths if path is not None]
            if len(set(named)) < len(named):
                told = f"--data, --json, --plot, --log and --{last}"
                raise ConfigError(f"{told} must be different paths")
        for label in ("json", "plot"):
            path = getattr(self, label)
            if path is not None:
                if os.path.isdir(path):
                    raise ConfigError(f"{flag(label)} {path} is a folder; give a file name")
                check_folder(label, path, path.absolute().parent)
        if self.checkpoint is not None:
            folder = self.checkpoint.absolute()
            nearest = next(part for part in (folder, *folder.parents) if os.path.exists(part))
            check_folder("checkpoint", self.checkpoint, nearest)
        elif self.checkpoint_every:
            raise ConfigError(
                f"--checkpoint-every {self.checkpoint_every} has nowhere to write; give "
                "--checkpoint DIR too"
            )
        self._check_weights()

    def _check_weights(self) -> None:
        if self.weights is not None and self.resume is not None:
            raise ConfigError(
                "--weights begins a run and --resume goes on with one that has weights; give one "
                "of them"
            )
        if self.export is not None:
            with naming("export"):
                huggingface.check_target(self.export)
            target = os.path.realpath(self.export)
            for label in ("data", "checkpoint", "resume", "json", "plot", "log", "weights"):
                other = getattr(self, label)
                # What the run writes below it first would be in the way of the folder at the end.
                if other is not None and target in _with_folders(os.path.realpath(other)):
                    raise ConfigError(
                        f"--export {self.export} is the path of {flag(label)}, or a folder above "
                        "it; give one of its own"
                    )


def check_warmup(warmup: int, steps: int) -> None:
    """Raise ConfigError for a warm-up that the run never leaves."""
    if warmup > steps:
        raise ConfigError(f"--warmup {warmup} is longer than the run of {steps} steps")


def _with_folders(path: str) -> list[str]:
    """A path and all folders above it."""
    return [path, *map(str, Path(path).parents)]


def _is_cuda_index(device: str) -> bool:
    kind, _, index = device.partition(":")
    return kind == "cuda" and index.isdecimal()
