"""Token and position embedding (kernels_cu/embedding.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes

__all__ = ["Embedding"]

_WINDOW = 8  # places that a thread sums
_SLOTS = 8  # threads of a block for each quad of its slab
_SLAB = 128  # channels of a block
_ENOUGH_BLOCKS = 2048  # of embedding_finish: some four waves on the largest GPU


class Embedding:
    """x[b,t] = token_table[tokens[b,t]] + position_table[t]; float32, int32 tokens.

    A position table of None adds nothing; then dposition is None as well.
    vocabulary: rows of token_table; a token outside it reads outside the table: tokens are the
    caller's to check.
    """

    def __init__(self, library: Library, vocabulary: int) -> None:
        """Take the kernels from `library`."""
        check_sizes("Embedding", least=1, vocabulary=vocabulary)
        self.vocabulary = vocabulary
        self._forward = library.kernel("embedding.cu", "embedding_forward")
        self._order = library.kernel("embedding.cu", "embedding_order")
        self._windows = library.kernel("embedding.cu", "embedding_windows")
        self._finish = library.kernel("embedding.cu", "embedding_finish")

    @staticmethod
    def order_shape(batch: int, length: int) -> tuple[int, int]:
        """Return the shape of backward's int32 places in the order of tokens, and their tokens."""
        return (2, batch * length)

    def begin_shape(self) -> tuple[int]:
        """Return the shape of backward's int32 list of where each token's places begin."""
        return (self.vocabulary + 1,)

    @staticmethod
    def partial_shape(batch: int, length: int, channels: int) -> tuple[int, int, int]:
        """Return the shape of backward's float32 sums of what crosses a window's bounds."""
        return (_windows(batch * length), 2, channels)

    def forward(
        self,
        stream: Stream,
        x: Pointer,
        tokens: Pointer,
        token_table: Pointer,
        position_table: Pointer | None,
        batch: int,
        length: int,
        channels: int,
    ) -> None:
        """Overwrite x [batch,length,channels]; one launch."""
        check_sizes("Embedding", batch=batch, length=length, channels=channels)
        if batch * length * channels == 0:
            return
        grid = (ceil_div(batch * length, 4), ceil_div(channels, 128))
        positions = 0 if position_table is None else position_table
        self._forward(stream, grid, 128, x, tokens, token_table, positions, batch, length, channels)

    def backward(
        self,
        stream: Stream,
        dtoken: Pointer,
        dposition: Pointer | None,
        order: Pointer,
        begin: Pointer,
        partial: Pointer,
        dx: Pointer,
        tokens: Pointer,
        batch: int,
        length: int,
        channels: int,
        *,
        accumulate: bool = False,
    ) -> None:
        """Overwrite dtoken [vocabulary,channels] and dposition [length,channels]; three launches.

        order, begin, partial: workspaces of `order_shape(batch, length)`, `begin_shape()` and
        `partial_shape(batch, length, channels)`. accumulate adds to dtoken and dposition instead.
        """
        sizes = batch, length, channels
        self.sort_places(stream, order, tokens, batch * length)
        work = order, begin, partial
        self.sum_places(stream, dtoken, dposition, *work, dx, *sizes, accumulate=accumulate)

    def sort_places(self, stream: Stream, order: Pointer, tokens: Pointer, count: int) -> None:
        """Overwrite order: the first launch of `backward`, which needs no gradient."""
        check_sizes("Embedding", count=count)
        if count:
            self._order(stream, ceil_div(count, 32), 256, order, tokens, count)

    def sum_places(
        self,
        stream: Stream,
        dtoken: Pointer,
        dposition: Pointer | None,
        order: Pointer,
        begin: Pointer,
        partial: Pointer,
        dx: Pointer,
        batch: int,
        length: int,
        channels: int,
        *,
        accumulate: bool = False,
    ) -> None:
        """Overwrite the gradients, from sorted places: the other two launches of `backward`."""
        check_sizes("Embedding", batch=batch, length=length, channels=channels)
        if channels == 0:
            return
        count, vocabulary, slabs = batch * length, self.vocabulary, ceil_div(channels, _SLAB)
        positions = 0 if dposition is None else length
        into = dtoken, 0 if dposition is None else dposition
        grid = (ceil_div(_windows(count), _SLOTS) + positions, slabs)
        sizes = count, vocabulary, batch, positions, channels, accumulate
        self._windows(stream, grid, 256, *into, partial, begin, dx, order, *sizes)
        lists = _lists(vocabulary, slabs)
        grid = (ceil_div(vocabulary, lists), slabs)
        self._finish(
            stream, grid, 256, dtoken, partial, begin, vocabulary, channels, lists, accumulate
        )


def _windows(count: int) -> int:
    """How many windows `count` places have: one holds the end of the last list, full or not."""
    return count // _WINDOW + 1


def _lists(vocabulary: int, slabs: int) -> int:
    """How many rows a block of embedding_finish has, 8 to 64: more where blocks abound."""
    lists = _SLOTS
    while lists < 64 and vocabulary * slabs >= 2 * lists * _ENOUGH_BLOCKS:
        lists *= 2
    return lists
