"""Weights and batches of a train row: one seed gives lowgraph and every rival the same ones."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lowgraph.bench.rows import ModelSize, Row
from lowgraph.models import find_model, find_preset
from lowgraph.ops.philox import batch_starts
from lowgraph.train.classes import Classes, drawn_classes
from lowgraph.train.data import Corpus
from lowgraph.train.datasets import Dataset
from lowgraph.train.plan import Plan, Schedule
from lowgraph.train.series import Rows, Series

__all__ = ["BATCHES", "batches", "dataset", "plan_of", "write_arrays"]

BATCHES = 16
"""Batches that rivals rotate through; also the steps whose losses are compared."""

_LEARNING_RATE = {"adamw": 1e-3, "sgd": 1e-2}
_TEXT_BYTES = 1 << 20
_SERIES_ROWS = 20_000

Array = npt.NDArray[Any]


def plan_of(row: Row, size: ModelSize) -> Plan:
    """The row as the trainer takes it: one learning rate for all steps and no decay.

    A rival's optimizer has one group of parameters then, which is its fastest.
    """
    preset = find_preset(size.model, size.preset)
    schedule = Schedule(
        steps=1_000_000, warmup=0, learning_rate=_LEARNING_RATE[row.optimizer], batch=preset.batch,
        weight_decay=0.0, final_share=1.0,
    )  # fmt: skip
    return Plan(size.model, size.preset, preset.model, schedule, BATCHES, row.precision)


def dataset(plan: Plan) -> Dataset:
    """Random data of the kind that the plan's model is trained on."""
    return _MAKERS[find_model(plan.model).data](plan)


def batches(plan: Plan, data: Any) -> tuple[Array, Array]:
    """Inputs and targets of steps 1 to BATCHES, as the feeds draw them: [BATCHES, B, ...]."""
    schedule, context = plan.schedule, plan.shape.context
    text = isinstance(data, Corpus)
    source, labels = (data.train, data.train) if text else (data.train.features, data.train.labels)
    shift = int(text)  # a text's target is the byte behind; a series' row carries its own
    places = len(labels) + 1 - shift
    inputs, targets = [], []
    for step in range(1, BATCHES + 1):
        starts = batch_starts(schedule.seed, step, schedule.batch, context, places)
        windows = [slice(int(s), int(s) + context) for s in starts]
        inputs.append([source[window] for window in windows])
        targets.append([labels[w.start + shift : w.stop + shift] for w in windows])
    label = np.float32 if data.kind == "series" else np.int32
    return np.array(inputs, np.int32 if text else np.float32), np.array(targets, label)


def write_arrays(plan: Plan, folder: Path) -> None:
    """weights.npz, by PyTorch's names, and batches.npz: what a rival starts from."""
    weights = find_model(plan.model).initial_values(plan.shape, plan.schedule.seed)
    np.savez(folder / "weights.npz", **weights)  # type: ignore[arg-type]
    inputs, targets = batches(plan, dataset(plan))
    np.savez(folder / "batches.npz", inputs=inputs, targets=targets)


def _text(plan: Plan) -> Corpus:
    """Random bytes; also for a larger vocabulary, of which they are the first 256 tokens."""
    found = np.random.default_rng(plan.schedule.seed).integers(0, 256, _TEXT_BYTES, np.uint8)
    cut = len(found) * 9 // 10
    digest = hashlib.sha256(found.tobytes()).hexdigest()
    return Corpus("random bytes", 0, 0, digest, found[:cut], found[cut:])


def _series(plan: Plan) -> Series:
    generator = np.random.default_rng(plan.schedule.seed)
    size = (_SERIES_ROWS, plan.shape.features)  # type: ignore[attr-defined]
    features = generator.standard_normal(size).astype(np.float32)
    labels = (generator.random(_SERIES_ROWS) > 0.5).astype(np.float32)
    cut = _SERIES_ROWS * 9 // 10
    digest = hashlib.sha256(features.tobytes() + labels.tobytes()).hexdigest()
    parts = Rows(features[:cut], labels[:cut]), Rows(features[cut:], labels[cut:])
    return Series("random series", "normal numbers", digest, *parts)


def _classes(plan: Plan) -> Classes:
    shape: Any = plan.shape
    return drawn_classes(shape.features, shape.classes)


_MAKERS: dict[str, Callable[[Plan], Dataset]] = {
    "text": _text,
    "series": _series,
    "classes": _classes,
}
