"""float32 numbers rounded to bfloat16 (kernels_cu/cast.cu)."""

from __future__ import annotations

from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes
from lowgraph.precision import Precision

__all__ = ["Cast"]


class Cast:
    """out[i] = in[i] as bfloat16, to nearest even."""

    def __init__(self, library: Library) -> None:
        """Take the kernel from `library`."""
        self._cast = library.kernel("cast.cu", "cast", {"act_t": Precision.BF16.ctype})

    def forward(self, stream: Stream, out: Pointer, source: Pointer, count: int) -> None:
        """Overwrite out, `count` bfloat16 elements, from float32 source; one launch."""
        check_sizes("Cast", count=count)
        if count:
            self._cast(stream, ceil_div(count, 512), 128, out, source, count)
