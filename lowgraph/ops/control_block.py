"""ControlBlock: a control block in the pool, whose settings the host changes between replays.

    control = ControlBlock(pool=pool, library=library, stream=stream, total_steps=100, lr_max=1e-3)
    control.set(lr_max=3e-4)        # the next step uses it; replays in flight do not

The settings are the host's alone and the state is the kernels' alone: `set` writes the bytes of the
settings and no other, so it cannot undo a step that is in flight.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowgraph.errors import ConfigError
from lowgraph.kernels import Library
from lowgraph.memory import PersistentPool, Slice, download, upload
from lowgraph.ops.control import (
    CONTROL_DTYPE,
    SETTINGS,
    SETTINGS_BYTES,
    Control,
    control_bytes,
    new_control,
    read_control,
)
from lowgraph.ops.shapes import Stream

__all__ = ["ControlBlock"]


class ControlBlock:
    """See the module. settings: as `new_control` takes them, `step` included.

    address, dtype: for launches. settings: what the device has, or will have in stream order.
    """

    dtype = np.dtype(np.uint8)

    def __init__(
        self,
        *,
        pool: PersistentPool,
        library: Library,
        stream: Stream,
        name: str = "control block",
        **settings: Any,
    ) -> None:
        """Take 128 bytes of the pool and enqueue the block. stream: the one the step runs on."""
        block = new_control(**settings)
        self.name = name
        self.settings: dict[str, Any] = {
            key: value for key, value in settings.items() if key != "step"
        }
        self._pool = pool
        self._stream = stream
        self._control = Control(library)
        self._slice: Slice = pool.take(name, CONTROL_DTYPE.itemsize, np.uint8)
        self._host_part = self._slice.part(0, (SETTINGS_BYTES,), f"{name}: settings")
        upload(self._slice, control_bytes(block), stream)

    @property
    def address(self) -> int:
        """Device address of the block."""
        return self._slice.address

    def set(self, **settings: Any) -> None:
        """Change settings (lr_max, seed, weight_decay ...), in stream order; nothing waits for it.

        The values go through the pool's pinned ring: of three calls in a row the third waits for
        the first one's copy. Raises ConfigError for a name that is no setting and for values that
        make no schedule (nothing is written then); refused in a capture window (CaptureRefused).
        """
        unknown = sorted(set(settings) - set(SETTINGS))
        if unknown:
            raise ConfigError(
                f"{self.name}: {', '.join(unknown)} cannot be set; the host sets "
                f"{', '.join(SETTINGS)}"
            )
        wanted = {**self.settings, **settings}
        upload(self._host_part, control_bytes(new_control(**wanted))[:SETTINGS_BYTES], self._stream)
        self.settings = wanted

    def advance(self, stream: Stream) -> None:
        """Begin the next step; one launch, the first of a body."""
        self._control.advance(stream, self._slice)

    def read(self) -> dict[str, Any]:
        """Every field behind the work so far, by name. Waits for it."""
        return read_control(download(self._slice, self._stream))

    def close(self) -> None:
        """Give the memory back. Idempotent; a graph that reads it keeps it till then."""
        if self._slice.alive:
            self._pool.give_back(self._slice)
