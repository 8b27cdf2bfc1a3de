"""A series to train on: rows of features in time, each with a label of 0 or 1, split in two."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lowgraph.errors import ConfigError
from lowgraph.memory import counted

__all__ = ["Rows", "Series", "constant_cross_entropy", "split_series"]

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
    sha256: of both parts or of their file, hexadecimal.
    train, heldout: the first nine tenths and the rest.
    lags: its columns go back in time one by one, so that the first few of them will do.
    """

    source: str
    about: str
    sha256: str
    train: Rows
    heldout: Rows
    lags: bool = False

    kind = "series"
    unit = "nats a label"
    tokens = "time steps"
    terms = "a time step is a row"
    baseline_name = "best constant answer"

    @property
    def nbytes(self) -> int:
        """Bytes of both parts."""
        parts = (self.train, self.heldout)
        return sum(part.features.nbytes + part.labels.nbytes for part in parts)

    @property
    def features(self) -> int:
        """F."""
        return self.train.features.shape[1]

    def describe(self) -> str:
        """One line: source, columns, split, sha256."""
        train, heldout = len(self.train.labels), len(self.heldout.labels)
        return (
            f"{self.source} ({self.about}): {train + heldout} rows of "
            f"{counted(self.features, 'feature')}, "
            f"{train} train + {heldout} held out, sha256 {self.sha256}"
        )

    def fit(self, shape: Any) -> tuple[Series, Any]:
        """The series and the shape with one number of features.

        Lags are cut to what the shape takes. Otherwise the shape takes what the series has.
        """
        fitted = self
        if self.lags and self.features > shape.features:
            first = slice(shape.features)
            train, heldout = (
                replace(part, features=np.ascontiguousarray(part.features[:, first]))
                for part in (self.train, self.heldout)
            )
            fitted = replace(self, train=train, heldout=heldout)
        return fitted, replace(shape, features=fitted.features)

    def check(self, shape: Any, batch: int) -> None:
        """Refuse a series of another number of features, or shorter than a window of T rows.

        A batch may be longer than the train part: its windows overlap.
        """
        if self.features != shape.features:
            raise ConfigError(
                f"{self.source} has {self.features} features, the model takes {shape.features}; "
                "give a --preset of as many features, or other columns"
            )
        for part, what in ((self.train, "to train on"), (self.heldout, "held out")):
            rows = len(part.labels)
            if rows < shape.context:
                raise ConfigError(
                    f"{self.source}: {rows} rows {what} are shorter than one window "
                    f"({shape.context} rows); give more rows, or a --preset of "
                    "a shorter window if the model has one"
                )

    def baseline(self) -> float:
        """Lowest held-out loss, nats a label, of a model that answers the same at every row.

        That one knows the held-out part's label rate, which no model is told. The train part's rate
        would be a lower bar: where rates move in time, a model that has learnt nothing from the
        features may get below it.
        """
        return constant_cross_entropy(self.heldout.labels)


def constant_cross_entropy(labels: Array) -> float:
    """Cross-entropy, in nats, of labels 0 and 1 under their own rate q: the least of a constant.

    -q log q - (1 - q) log(1 - q); 0 where all are alike.
    """
    q = float(np.mean(labels, dtype=np.float64))
    return float(-sum(part * np.log(part) for part in (q, 1.0 - q) if part > 0))


def split_series(
    features: npt.NDArray[np.float64], labels: npt.NDArray[np.float64]
) -> tuple[Rows, Rows]:
    """The first nine tenths of the rows and the rest, both standardised by the first part.

    features [rows, F], labels [rows], at least one row to train on; every feature less the train
    part's mean, over its deviation (over 1 where the train part is constant). Raises OverflowError,
    with the column, for one whose standardised values are not finite in float32.
    """
    cut = len(labels) * 9 // 10
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        mean, deviation = features[:cut].mean(axis=0), features[:cut].std(axis=0)
        # Rounding leaves a constant column a deviation of about its last bit.
        constant = features[:cut].min(axis=0) == features[:cut].max(axis=0)
        scaled = ((features - mean) / np.where(constant, 1.0, deviation)).astype(np.float32)
    for column, finite in enumerate(np.isfinite(scaled).all(axis=0)):
        if not finite:
            raise OverflowError(column)
    targets = labels.astype(np.float32)
    return Rows(scaled[:cut], targets[:cut]), Rows(scaled[cut:], targets[cut:])
