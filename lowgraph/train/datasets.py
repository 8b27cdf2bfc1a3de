"""The kinds of data that models are trained on: how each is read, and how it reaches a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from lowgraph.errors import ConfigError
from lowgraph.models.registry import find_model
from lowgraph.train.classes import Classes, read_classes
from lowgraph.train.config import TrainConfig
from lowgraph.train.data import Corpus, heldout_plan, read_corpus
from lowgraph.train.default_series import read_default_series
from lowgraph.train.feed import Feeds, Ground, HeldoutText, TextFeed, device_bytes
from lowgraph.train.plan import Plan, make_plan
from lowgraph.train.series import Series
from lowgraph.train.series_feed import ClassFeed, DrawnStarts, SeriesFeed
from lowgraph.train.series_files import read_series_file

__all__ = ["Dataset", "check_data", "early_plan", "make_feeds", "plan_for", "read_data"]


class Dataset(Protocol):
    """Data to train on, on the host."""

    @property
    def kind(self) -> str:
        """As ModelEntry.data calls it."""

    @property
    def source(self) -> str:
        """Where it comes from, for people."""

    @property
    def sha256(self) -> str:
        """Of all of it, hexadecimal."""

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""

    @property
    def unit(self) -> str:
        """What a loss is in, "nats a byte"."""

    @property
    def tokens(self) -> str:
        """What a model takes one after the other: "tokens"."""

    @property
    def terms(self) -> str:
        """What those are, "tokens are bytes"."""

    @property
    def baseline_name(self) -> str:
        """What `baseline` is the loss of."""

    def describe(self) -> str:
        """One line for people."""

    def fit(self, shape: Any) -> tuple[Dataset, Any]:
        """The data for a model of that shape, and the shape for the data, where one can give."""

    def check(self, shape: Any, batch: int) -> None:
        """Raise ConfigError for data that a model of that shape cannot be trained on."""

    def baseline(self) -> float:
        """The held-out loss that a model must pass to have learnt something, in nats."""


def read_data(model: str, path: Path | None) -> Dataset:
    """Read what `model` is trained on. Raises ConfigError as the reader of its kind does."""
    return _READERS[find_model(model).data](path)


def plan_for(
    config: TrainConfig, device_kind: str, data: Dataset, begun: Plan | None = None
) -> tuple[Plan, Dataset]:
    """`make_plan`, and plan and data as they fit each other (Dataset.fit).

    A plan that is begun keeps its shape. Raises ConfigError as make_plan and check_data do.
    """
    plan = make_plan(config, device_kind, begun)
    fitted, shape = data.fit(plan.shape)
    if begun is None:
        plan = replace(plan, shape=shape)
    check_data(plan, fitted)
    return plan, fitted


def early_plan(
    config: TrainConfig, data: Dataset, begun: Plan | None = None
) -> tuple[Plan, Dataset] | None:
    """`plan_for` before there is a device, to refuse what cannot be before it is opened, or built.

    None where the default size is that of a device that is not known yet.
    """
    if config.preset is None and begun is None and config.device_kind is None:
        return None
    return plan_for(config, config.device_kind or "", data, begun)


def check_data(plan: Plan, data: Dataset) -> None:
    """Raise ConfigError unless the plan's model can be trained on the data."""
    wanted = find_model(plan.model).data
    if data.kind != wanted:
        raise ConfigError(f"{plan.model} is trained on {wanted}; {data.source} is {data.kind}")
    data.check(plan.shape, plan.schedule.windows)


def make_feeds(data: Dataset, ground: Ground) -> Feeds:
    """The feeds over the data. Uploads what they read on the device."""
    return _FEEDS[data.kind](data, ground)


def _text_feeds(corpus: Corpus, ground: Ground) -> Feeds:
    text = device_bytes(ground, "text", corpus.train)
    heldout = device_bytes(ground, "held-out text", corpus.heldout)
    windows, places = heldout_plan(
        heldout.elements, ground.context, ground.batch, ground.heldout_batches
    )
    evaluated = HeldoutText(ground, heldout, places, windows)
    return Feeds(TextFeed(ground, text), evaluated, len(places))


def _series_feeds(series: Series, ground: Ground, feed: type[SeriesFeed] = SeriesFeed) -> Feeds:
    """Training windows are drawn as those of a text are; so step n has the same in every run."""
    context, batch = ground.context, ground.batch
    # Of `rows` places one more than of a text: a row carries its own label.
    rows, heldout_rows = len(series.train.labels) + 1, len(series.heldout.labels) + 1
    windows, places = heldout_plan(heldout_rows, context, batch, ground.heldout_batches)
    train = feed(
        ground, "staged batches", series.train, ground.step, ground.windows,
        DrawnStarts(ground.seed, ground.windows, context, rows), early=True,
    )  # fmt: skip
    heldout = feed(
        ground, "staged held-out batches", series.heldout, ground.cursor, windows,
        lambda number: range(places[number], places[number] + windows * context, context),
    )  # fmt: skip
    return Feeds(train, heldout, len(places))


def _class_feeds(rows: Classes, ground: Ground) -> Feeds:
    return _series_feeds(rows, ground, ClassFeed)


def _read_series(path: Path | None) -> Series:
    return read_default_series() if path is None else read_series_file(path)


_READERS: dict[str, Callable[[Path | None], Dataset]] = {
    "text": read_corpus,
    "series": _read_series,
    "classes": read_classes,
}
_FEEDS: dict[str, Callable[[Any, Ground], Feeds]] = {
    "text": _text_feeds,
    "series": _series_feeds,
    "classes": _class_feeds,
}
