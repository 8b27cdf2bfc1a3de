"""Batches cut from a corpus of bytes in device memory (kernels_cu/batch.cu)."""

from __future__ import annotations

from lowgraph.errors import ConfigError
from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes

__all__ = ["BatchGather"]


class BatchGather:
    """tokens[b,t] = corpus[start_b + t] and targets[b,t] = the byte after it, both int32."""

    def __init__(self, library: Library) -> None:
        """Take the kernels from `library`."""
        self._random = library.kernel("batch.cu", "batch_gather")
        self._windows = library.kernel("batch.cu", "batch_windows")

    def random(
        self,
        stream: Stream,
        tokens: Pointer,
        targets: Pointer,
        corpus: Pointer,
        control: Pointer,
        corpus_bytes: int,
        batch: int,
        length: int,
        *,
        ahead: int = 0,
    ) -> None:
        """Overwrite tokens and targets [batch,length] with a step's random windows.

        Starts are drawn with replacement by Philox from the control block's seed and the step
        (`lowgraph.ops.philox.batch_starts` gives the same numbers). ahead: how far the control
        block is still to advance to that step. One launch. Raises ConfigError if the corpus has no
        `length` + 1 bytes.
        """
        check_sizes("BatchGather", batch=batch, length=length, ahead=ahead)
        if corpus_bytes <= length:
            raise ConfigError(
                f"BatchGather: a window of {length} bytes and its target need {length + 1} bytes; "
                f"the corpus has {corpus_bytes}"
            )
        if batch * length:
            grid = (ceil_div(length, 128), batch)
            tensors = tokens, targets, corpus, control
            self._random(stream, grid, 128, *tensors, ahead, corpus_bytes, batch, length)

    def windows(
        self,
        stream: Stream,
        tokens: Pointer,
        targets: Pointer,
        corpus: Pointer,
        places: Pointer,
        cursor: Pointer,
        batch: int,
        length: int,
    ) -> None:
        """Overwrite tokens and targets with neighbouring windows from byte places[cursor[0]].

        For evaluation. places, int64, and cursor, int64 [1], are read when the launch runs; the
        caller sees to it that place + batch * length, the last target, lies in the corpus. One
        launch.
        """
        check_sizes("BatchGather", batch=batch, length=length)
        if batch * length:
            grid = (ceil_div(length, 128), batch)
            self._windows(stream, grid, 128, tokens, targets, corpus, places, cursor, batch, length)
