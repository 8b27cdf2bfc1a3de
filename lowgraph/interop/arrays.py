"""Arrays of other libraries as memory of ours, and slices as arrays that are ordered by a stream.

A bare slice has DLPack and the CUDA array interface too; as nobody knows which stream writes it,
nothing waits then. `ordered` names the stream, and its consumer's work comes behind it.
"""

from __future__ import annotations

from typing import Any

from lowgraph.capture import ForeignMemory
from lowgraph.capture.pinned_memory import describe, keeper_of
from lowgraph.driver import event
from lowgraph.driver import stream as streams
from lowgraph.driver.foreign_stream import StreamLike, stream_handle
from lowgraph.memory import Slice
from lowgraph.memory.dlpack import read_array

__all__ = ["Ordered", "foreign_memory", "ordered"]


def foreign_memory(
    array: Any, name: str = "array", stream: StreamLike | None = None
) -> ForeignMemory:
    """The memory of an array of another library, with what keeps it: no copy.

    array: has DLPack or `__cuda_array_interface__`, is contiguous and on the process's device. Its
        shape and dtype are kept; bfloat16 is uint16, its bits.
    stream: of the work that is to use it, made to wait for the array's producer if that says what
        there is to wait for; by default nothing waits.

    A pin or Input takes the array itself. This is for a launch outside of a step, and for
    `foreign=` of audits. Raises ConfigError for what is no such array, PoolError for one whose
    memory was freed.
    """
    place = describe(array, name)
    if stream is not None:
        _wait_for_producer(array, name, stream_handle(stream))
    found = keeper_of(array, place, name)
    if isinstance(found, ForeignMemory):
        return found
    return ForeignMemory(place.address, place.nbytes, array, place.shape, place.dtype, name=name)


def _wait_for_producer(array: Any, name: str, stream: int) -> None:
    if hasattr(array, "__dlpack__"):
        # DLPack has no 0 for CUDA: the legacy stream is 1.
        read_array(array, f"input {name!r}", stream or 1)
        return
    interface = getattr(array, "__cuda_array_interface__", {})
    if interface.get("stream"):
        event.order(int(interface["stream"]), stream)


class Ordered:
    """A slice as an array whose users wait for a stream's work; see `ordered`."""

    def __init__(self, piece: Slice, stream: StreamLike) -> None:
        self.piece = piece
        self.stream = stream_handle(stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.piece.__dlpack_device__()

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> object:
        if self.piece.pool is not None:
            self.piece.pool.device.hand_over(self.stream, stream)
        return self.piece.__dlpack__(**options)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.piece.__cuda_array_interface__, "stream": self.stream or streams.LEGACY}


def ordered(piece: Slice, stream: StreamLike) -> Ordered:
    """A slice for `from_dlpack` and the like of another library, behind the work of `stream`.

    On a GPU the consumer's stream waits, and the host does not; a consumer on the CPU has none, so
    on the host device the host waits. The array holds the slice's memory until it is dropped.
    """
    return Ordered(piece, stream)
