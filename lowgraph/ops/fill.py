"""One value into every element of a float32 tensor (kernels_cu/fill.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div

__all__ = ["Fill"]


class Fill:
    """out[:] = value."""

    def __init__(self, library: Library) -> None:
        """Take the kernel from `library`."""
        self._fill = library.kernel("fill.cu", "fill")

    def forward(self, stream: Stream, out: Pointer, value: float, count: int) -> None:
        """Overwrite out, `count` elements; one launch."""
        if count:
            self._fill(stream, ceil_div(count, 512), 128, out, value, count)
