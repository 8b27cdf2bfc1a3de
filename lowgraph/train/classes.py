"""Rows to tell classes of apart: features, and a class each; rows are independent of each other.

They come from the files that a series comes from, with a whole number from 0 as the label, or are
drawn: the default set is normal numbers about a centre for each class, the same on every machine.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lowgraph.errors import ConfigError
from lowgraph.train.series import Series, split_series
from lowgraph.train.series_files import LABEL_IS, read_table, refused, split_table

__all__ = ["Classes", "drawn_classes", "read_classes"]

_MOST_CLASSES = 65536  # far above any label that is meant; a larger one is a number, not a class
_DRAWN_ROWS, _DRAWN_FEATURES, _DRAWN_CLASSES = 8192, 256, 10
_DISTANCE = 0.6  # of centres, in deviations and for each feature: classes overlap, and part


@dataclass(frozen=True)
class Classes(Series):
    """As a Series, whose labels are classes: whole numbers from 0, as float32."""

    kind = "classes"
    tokens = "rows"
    terms = "a row is by itself"
    baseline_name = "train class rates"

    @property
    def classes(self) -> int:
        """C: the largest label, and one."""
        return int(max(part.labels.max(initial=0) for part in (self.train, self.heldout))) + 1

    def fit(self, shape: Any) -> tuple[Series, Any]:
        """As a series does; the shape takes the classes too."""
        fitted, shape = super().fit(shape)
        return fitted, replace(shape, classes=self.classes)

    def check(self, shape: Any, batch: int) -> None:
        """As a series does; and refuse more classes than the model has."""
        super().check(shape, batch)
        if self.classes > shape.classes:
            raise ConfigError(
                f"{self.source} has labels up to {self.classes - 1}, the model {shape.classes} "
                "classes; give a --preset of as many classes"
            )

    def baseline(self) -> float:
        """Held-out loss, nats a label, of a model that knows the train part's class rates alone.

        Each class counts once more (add-one smoothing, as bigram_cross_entropy has it).
        """
        count = self.classes
        known = np.bincount(self.train.labels.astype(np.int64), minlength=count) + 1
        cost = np.log(known.sum()) - np.log(known)
        return float(cost[self.heldout.labels.astype(np.int64)].mean())


def read_classes(path: Path | None) -> Classes:
    """Read a file, or draw the default set (None). Raises ConfigError for a file that is none.

    The rows of a file are shuffled before they are split, as many files are sorted by class.
    """
    if path is None:
        return drawn_classes()
    table, label, digest = read_table(path)
    labels = table.values[:, label]
    wrong = (labels != np.floor(labels)) | (labels < 0) | (labels >= _MOST_CLASSES)
    for row in np.flatnonzero(wrong)[:1]:
        raise refused(
            path,
            f"{table.place(row, label)} is {labels[row]:g}; a class is a whole number from 0 to "
            f"{_MOST_CLASSES - 1} ({LABEL_IS})",
        )
    order = np.random.default_rng(0).permutation(len(labels))
    train, heldout = split_table(replace(table, values=table.values[order]), label)
    return Classes(str(path), f"class in column {table.names[label]}", digest, train, heldout)


def drawn_classes(features: int = _DRAWN_FEATURES, classes: int = _DRAWN_CLASSES) -> Classes:
    """The default set; a model of fewer features takes the first ones."""
    generator = np.random.default_rng(0)
    centres = generator.standard_normal((classes, features)) * _DISTANCE
    labels = generator.integers(0, classes, _DRAWN_ROWS)
    values = centres[labels] + generator.standard_normal((_DRAWN_ROWS, features))
    train, heldout = split_series(values, labels.astype(np.float64))
    digest = hashlib.sha256(train.features.tobytes() + train.labels.tobytes()).hexdigest()
    about = f"normal numbers about a centre for each of {classes} classes"
    return Classes("a drawn set", about, digest, train, heldout, lags=True)
