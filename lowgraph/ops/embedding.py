"""Token and position embedding (kernels_cu/embedding.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes, quads

__all__ = ["Embedding"]


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
        self._token = library.kernel("embedding.cu", "embedding_backward_token")
        self._position = library.kernel("embedding.cu", "embedding_backward_position")

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
        grid = ceil_div(batch * length * quads(channels), 128)
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
        """Overwrite dtoken [vocabulary,channels] and dposition [length,channels]; three launches,
        two without a dposition.

        places, begin: int32 workspaces of `places_shape(batch, length)` and `begin_shape()`.
        accumulate adds to dtoken and dposition instead.
        """
        check_sizes("Embedding", batch=batch, length=length, channels=channels)
        count, vocabulary = batch * length, self.vocabulary
        if channels == 0:
            return
        self._places(stream, ceil_div(vocabulary, 32), 32, places, begin, tokens, count, vocabulary)
        grid = ceil_div(vocabulary * quads(channels), 128)
        self._token(stream, grid, 128, dtoken, dx, places, begin, vocabulary, channels, accumulate)
        if length == 0 or dposition is None:
            return
        grid = ceil_div(length * quads(channels), 128)
        self._position(stream, grid, 128, dposition, dx, batch, length, channels, accumulate)
