"""Feeds: where the batches of a step come from, and what the host has to do for them.

A feed owns its data on the device. The body of a step asks it for the batch (`draw`), in a window
as outside of one. Before each step it is told the step's number (`stage`), behind it once more
(`mark`): a feed whose batches the host writes does so in between, as no host code runs in a replay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from lowgraph import ops
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, Slice, upload
from lowgraph.ops.shapes import Pointer

__all__ = ["Batch", "Feed", "Feeds", "Ground", "HeldoutText", "TextFeed", "device_bytes"]


class Batch(NamedTuple):
    """What a model is given for a step. held: the slices to give back once they are read."""

    inputs: Slice
    targets: Slice
    held: tuple[Slice, ...]

    def part(self, index: int, count: int) -> Batch:
        """Windows of micro-batch `index` of `count`, which divides theirs; they hold nothing."""
        inputs = _windows(self.inputs, index, count)
        return Batch(inputs, _windows(self.targets, index, count), ())


class Feed(Protocol):
    """See the module. Its steps are numbered by a counter on the device, which `draw` reads.

    A training step draws before its control block advances, so that this runs beside the chain;
    and then, before it too, and beside the chain, it fetches what its follower will draw.

    Attributes
    ----------
    sources: its data on the device, which a step only reads.
    waits: how often the host has waited, in `stage`, for a place to write to.
    """

    sources: tuple[Slice, ...]
    waits: int

    def begin(self, number: int) -> None:
        """Be ready for step `number`, which follows none: the first one, or one after a jump."""

    def stage(self, number: int) -> None:
        """Do the host's part for step `number`; call it before that step is issued."""

    def draw(self, stream: int) -> Batch:
        """Enqueue the batch of the step, or evaluation, that begins."""

    def fetch(self, stream: int) -> None:
        """Enqueue what can be done for the draw of the step to come. Behind this one's draw."""

    def mark(self, number: int) -> None:
        """Step `number` is issued: what it reads is in use until it is done."""

    def close(self) -> None:
        """Free what is not the pool's. Idempotent."""


@dataclass(frozen=True)
class Feeds:
    """The feed of the training step, that of an evaluation, and the batches of an evaluation."""

    train: Feed
    heldout: Feed
    batches: int


@dataclass(frozen=True)
class Ground:
    """What feeds are made with.

    context: T. windows: of a training step. batch: windows of a held-out batch, at most. seed: of
    the windows. heldout_batches: how many are asked for.
    step: int64 [1], the number of the step before the one that begins. cursor: int64 [1], the
    running batch's place in an evaluation, from 0. on_close: told how to free a feed as soon as it
    is made.
    """

    library: Library
    pool: PersistentPool
    stream: int
    context: int
    windows: int
    batch: int
    seed: int
    heldout_batches: int
    control: Slice
    step: Pointer
    cursor: Slice
    on_close: Callable[[Callable[[], None]], object]


class _Unstaged:
    """A feed whose batches are drawn on the device alone."""

    waits = 0

    def begin(self, number: int) -> None:
        """Nothing: a batch depends on its step alone."""

    def stage(self, number: int) -> None:
        """Nothing: the device knows its step."""

    def fetch(self, stream: int) -> None:
        """Nothing: the data is on the device."""

    def mark(self, number: int) -> None:
        """Nothing: the data never changes."""

    def close(self) -> None:
        """Nothing: the pool frees its memory."""


class TextFeed(_Unstaged):
    """Random windows of a text, drawn by the control block's seed and step."""

    def __init__(self, ground: Ground, text: Slice) -> None:
        """Draw from `text`, bytes on the device, longer than a window."""
        self.sources: tuple[Slice, ...] = (text,)
        self._text = text
        self._control = ground.control
        self._pool = ground.pool
        self._shape = (ground.windows, ground.context)
        self._gather = ops.BatchGather(ground.library)

    def draw(self, stream: int) -> Batch:
        """Tokens and targets, int32 [B, T], the targets one byte on."""
        batch = _token_batch(self._pool, self._shape)
        tokens, targets, text = batch.inputs, batch.targets, self._text
        self._gather.random(
            stream, tokens, targets, text, self._control, text.elements, *self._shape, ahead=1
        )
        return batch


class HeldoutText(_Unstaged):
    """Neighbouring windows of a text from places[cursor], one place a batch."""

    def __init__(self, ground: Ground, text: Slice, places: list[int], windows: int) -> None:
        """Read `windows` windows a batch; each lies in `text` (`heldout_plan`)."""
        self._places = ground.pool.take("held-out places", len(places), np.int64)
        upload(self._places, np.array(places, np.int64), ground.stream)
        self.sources: tuple[Slice, ...] = (text, self._places)
        self._text = text
        self._cursor = ground.cursor
        self._pool = ground.pool
        self._shape = (windows, ground.context)
        self._gather = ops.BatchGather(ground.library)

    def draw(self, stream: int) -> Batch:
        """Tokens and targets, int32 [windows, T]."""
        batch = _token_batch(self._pool, self._shape)
        tokens, targets = batch.inputs, batch.targets
        self._gather.windows(
            stream, tokens, targets, self._text, self._places, self._cursor, *self._shape
        )
        return batch


def device_bytes(ground: Ground, name: str, values: npt.NDArray[np.uint8]) -> Slice:
    """A slice with these bytes, behind the work so far."""
    piece = ground.pool.take(name, values.shape, np.uint8)
    upload(piece, values, ground.stream)
    return piece


def _windows(piece: Slice, index: int, count: int) -> Slice:
    shape = (piece.shape[0] // count, *piece.shape[1:])
    return piece.part(index * (piece.elements // count), shape)


def _token_batch(pool: PersistentPool, shape: tuple[int, int]) -> Batch:
    tokens = pool.take("tokens", shape, np.int32)
    targets = pool.take("targets", shape, np.int32)
    return Batch(tokens, targets, (tokens, targets))
