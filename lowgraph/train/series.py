"""A series to train on: rows of features in time, each with a label of 0 or 1, split in two."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowgraph.errors import ConfigError

__all__ = ["Rows", "Series", "label_entropy"]

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Rows:
    """Neighbouring rows in time: features, float32 [rows, F], and labels 0 or 1, float32 [rows]."""

    features: Array
    labels: Array


@dataclass(frozen=True)
class Series:
    """A series and its split.

    Attributes
    ----------
    source: where it comes from, for people. about: what its columns are.
    sha256: of both parts, hexadecimal. train, heldout: the first nine tenths and the rest.
    """

    source: str
    about: str
    sha256: str
    train: Rows
    heldout: Rows

    kind = "series"
    unit = "nats a label"
    token = "rows"
    baseline_name = "train label rate"

    @property
    def nbytes(self) -> int:
        """Bytes of both parts."""
        parts = (self.train, self.heldout)
        return sum(part.features.nbytes + part.labels.nbytes for part in parts)

    def describe(self) -> str:
        """One line: source, columns, split, sha256."""
        train, heldout = len(self.train.labels), len(self.heldout.labels)
        return (
            f"{self.source} ({self.about}): {train + heldout} rows of "
            f"{self.train.features.shape[1]} features, {train} train + {heldout} held out, "
            f"sha256 {self.sha256}"
        )

    def check(self, shape: Any, batch: int) -> None:
        """Refuse a series of another number of features, or shorter than one batch or window."""
        found = self.train.features.shape[1]
        if found != shape.features:
            raise ConfigError(
                f"{self.source} has {found} features, the model takes {shape.features}; give a "
                "--preset of as many features, or other columns"
            )
        for rows, windows, what in (
            (len(self.train.labels), batch, f"one batch ({batch} windows of {shape.context} rows)"),
            (len(self.heldout.labels), 1, f"one held-out window ({shape.context} rows)"),
        ):
            if rows < windows * shape.context:
                raise ConfigError(
                    f"{self.source}: {rows} rows are shorter than {what}; give more rows or a "
                    "smaller --batch or --preset"
                )

    def baseline(self) -> float:
        """The loss, in nats a label, of a model that knows the train part's label rate alone."""
        return label_entropy(self.train.labels)


def label_entropy(labels: Array) -> float:
    """Entropy in nats of labels 0 and 1 by their rate p: -p log p - (1 - p) log(1 - p)."""
    rate = float(np.mean(labels, dtype=np.float64))
    return -sum(share * math.log(share) for share in (rate, 1 - rate) if share > 0)
