"""Batches from a ring of slots that the host writes (kernels_cu/staged.cu)."""

from __future__ import annotations

from lowgraph.errors import ConfigError
from lowgraph.kernels import Library
from lowgraph.ops.shapes import Pointer, Stream, ceil_div, check_sizes

__all__ = ["StagedCopy"]

_ELEMENTS_A_BLOCK = 1024


class StagedCopy:
    """out = slot (counter + ahead) % slots of a ring in mapped pinned memory, float32."""

    def __init__(self, library: Library) -> None:
        """Take the kernel from `library`."""
        self._copy = library.kernel("staged.cu", "staged_copy")

    def forward(
        self,
        stream: Stream,
        out: Pointer,
        ring: Pointer,
        counter: Pointer,
        elements: int,
        slots: int,
        *,
        ahead: int = 0,
    ) -> None:
        """Overwrite out [elements] with a slot of ring [slots, elements]; one launch.

        counter: int64 [1] on the device, at least 0, read when the launch runs; the slot is that of
        `ahead` counts later, for a launch in front of what counts. out and ring are aligned to 16
        bytes. Raises ConfigError unless elements is a multiple of 4.
        """
        check_sizes("StagedCopy", least=1, slots=slots)
        check_sizes("StagedCopy", ahead=ahead)
        if elements < 0 or elements % 4:
            raise ConfigError(
                f"StagedCopy: elements must be a multiple of 4 and at least 0, got {elements}"
            )
        if elements:
            grid = ceil_div(elements, _ELEMENTS_A_BLOCK)
            self._copy(stream, grid, 128, out, ring, counter, ahead, elements, slots)
