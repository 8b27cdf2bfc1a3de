"""What a run ends with: figures as data (`--json`), and the same as text."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lowgraph.errors import ConfigError
from lowgraph.train.files import replace_file

__all__ = ["Result", "finite", "write_json"]


@dataclass
class Result:
    """A run's figures; the field names are the keys of the JSON file.

    Attributes
    ----------
    device, arch, gemm, precision, graph: what it ran on, and whether as a graph and why.
    steps: steps done in all; resumed_from: those of them done by earlier runs.
    accumulate: micro-batches of a step, each of `batch` windows. clip_norm, ema_decay, schedule: of
        the update (docs/optimizer.md); 0 is off.
    losses: training loss of each step of this run; loss_first, loss_last: its ends.
    grad_norms: global norm of the gradients of each step, before clipping.
    masked_elements, masked_steps: elements of them that were not finite and counted as 0, and the
        steps that had any; masked_elements_total, masked_steps_total: the same of all steps done,
        those before a resume included.
    weights_out: which weights held-out losses, sample and export are of, "plain" or "ema".
    heldout_loss: the last of `heldout`: (step, loss) of every evaluation.
    baseline_loss: to compare it with, of what `baseline` names; bigram_loss: the same where that is
        a bigram model of a text, else None. loss_unit: of all losses, "nats a byte".
    heldout_captures, heldout_replays: of the graph of a held-out batch.
    captures, updates, replays, refusals: of the step's graph.
    launches_eager_step, launches_replay_step: driver launches of one step either way.
    library_calls_eager_step: library calls beside those of an eager step, where it is not known how
        many kernels they launch: a step without a graph on a GPU.
    nodes: nodes of the graph; 0 without one.
    pool_bytes, retained_bytes: held from the driver, and of that by the graph.
    step_us: mean of the steps after the first two (priming; recording), on the device's clock.
    warm_step_us: the same of the steps from the run's 50th on; None in a shorter run.
    tokens_per_s: tokens, or time steps of a series, of a step over `step_us`.
    interrupted: ended by Ctrl-C.
    stages: with --timers, by stage over the last third of the laps (lowgraph.train.timers).
    """

    device: str
    device_title: str
    arch: str
    gemm: str
    precision: str
    model: str
    preset: str
    params: int
    batch: int
    context: int
    accumulate: int
    clip_norm: float
    ema_decay: float
    schedule: str
    weights_out: str
    seed: int
    data: str
    data_bytes: int
    data_sha256: str
    baseline: str
    baseline_loss: float
    bigram_loss: float | None
    loss_unit: str
    version: str
    graph: str = ""
    steps: int = 0
    resumed_from: int = 0
    losses: list[float] = field(default_factory=list)
    grad_norms: list[float] = field(default_factory=list)
    masked_elements: int = 0
    masked_steps: int = 0
    masked_elements_total: int = 0
    masked_steps_total: int = 0
    heldout: list[tuple[int, float]] = field(default_factory=list)
    captures: int = 0
    updates: int = 0
    replays: int = 0
    refusals: int = 0
    heldout_captures: int = 0
    heldout_replays: int = 0
    launches_eager_step: int | None = None
    library_calls_eager_step: int | None = None
    launches_replay_step: int | None = None
    nodes: int = 0
    pool_bytes: int = 0
    retained_bytes: int = 0
    step_us: float | None = None
    warm_step_us: float | None = None
    tokens_per_s: float | None = None
    interrupted: bool = False
    stages: list[dict[str, Any]] = field(default_factory=list)
    sample: str | None = None

    @property
    def loss_first(self) -> float | None:
        """Loss of this run's first step; None when it did none."""
        return self.losses[0] if self.losses else None

    @property
    def loss_last(self) -> float | None:
        """Loss of this run's last step; None when it did none."""
        return self.losses[-1] if self.losses else None

    @property
    def heldout_loss(self) -> float | None:
        """The last held-out loss; None before any evaluation."""
        return self.heldout[-1][1] if self.heldout else None

    def as_dict(self) -> dict[str, Any]:
        """All figures, ready for JSON: what is no finite number becomes None."""
        figures = asdict(self)
        for name in ("loss_first", "loss_last", "heldout_loss"):
            figures[name] = getattr(self, name)
        clean: dict[str, Any] = finite(figures)
        return clean


def write_json(path: Path, figures: dict[str, Any]) -> None:
    """Write one object to a file, whole or not at all. Raises ConfigError if it cannot."""
    text = json.dumps(figures, indent=1, allow_nan=False) + "\n"
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise ConfigError(f"--json {path}: {error.strerror or error}") from error


def finite(value: Any) -> Any:
    """The same for JSON, which has no NaN and no infinity: None in their place."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
