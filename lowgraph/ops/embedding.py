"""Token and position embedding (kernels_cu/embedding.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes, quads

__all__ = ["Embedding"]

_MOST_THREADS = 2**21  # of the sums: a GPU runs some 2**18 at a time
_ROWS_A_THREAD = 64  # of all rows, for each thread that shares a list
_SLOTS = 32  # threads of a block for each quad of its slab


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
        self._places = library.kernel("embedding.cu", "embedding_places")
        self._backward = library.kernel("embedding.cu", "embedding_backward")

    @staticmethod
    def places_shape(batch: int, length: int) -> tuple[int]:
        """Return the shape of backward's int32 list of places."""
        return (batch * length,)

    def begin_shape(self) -> tuple[int]:
        """Return the shape of backward's int32 list of starts in the list of places."""
        return (self.vocabulary + 1,)

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
        places: Pointer,
        begin: Pointer,
        dx: Pointer,
        tokens: Pointer,
        batch: int,
        length: int,
        channels: int,
        *,
        accumulate: bool = False,
    ) -> None:
        """Overwrite dtoken [vocabulary,channels] and dposition [length,channels]; two launches.

        places, begin: int32 workspaces of `places_shape(batch, length)` and `begin_shape()`.
        accumulate adds to dtoken and dposition instead.
        """
        check_sizes("Embedding", batch=batch, length=length, channels=channels)
        count, vocabulary = batch * length, self.vocabulary
        if channels == 0:
            return
        self._places(stream, vocabulary, 128, places, begin, tokens, count, vocabulary)
        positions = 0 if dposition is None else length
        lists = vocabulary + positions
        groups = _groups(lists * quads(channels), count)
        grid = (ceil_div(lists, _SLOTS // groups), ceil_div(channels, 32))
        into = dtoken, 0 if dposition is None else dposition
        sizes = vocabulary, batch, positions, channels, groups, accumulate
        self._backward(stream, grid, 256, *into, dx, places, begin, *sizes)


def _groups(sums: int, rows: int) -> int:
    """How many threads share each of `sums` sums over lists that have `rows` rows in all.

    The more the longer lists can be, as long as the GPU has room for them. A power of two, 1 to 32.
    """
    groups = 1
    while groups < _SLOTS and 2 * groups * _ROWS_A_THREAD <= rows:
        groups *= 2
    while groups > 1 and groups * sums > _MOST_THREADS:
        groups //= 2
    return groups
