"""cuda.core on the tests' device: its objects, and numbers in and out of its buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowgraph.driver import Device
from tests.foreign import programs

cc = pytest.importorskip("cuda.core", reason="cuda.core is not installed")
graph = pytest.importorskip("cuda.core.graph", reason="this cuda.core has no graph package")

N = 257  # two blocks, the second with one thread
CONFIG = {"grid": 2, "block": 256}


class Core:
    """A device, a stream and the kernels of examples/c/capture.cu, as cuda.core has them."""

    def __init__(self, device: Device) -> None:
        self.device = cc.Device(device.ordinal)
        self.device.set_current()
        self.stream = self.device.create_stream()
        image = programs.image_of(device, programs.EXAMPLE.with_suffix(".cu"))
        self.code = cc.ObjectCode.from_cubin(image)
        self.add_scaled = self.code.get_kernel("add_scaled")
        self.square = self.code.get_kernel("square")
        self.config = cc.LaunchConfig(**CONFIG)
        self.pinned = cc.LegacyPinnedMemoryResource()

    def put(self, values: Any) -> Any:
        """A device buffer with these values as float32."""
        array = np.asarray(values, np.float32)
        staged = self.pinned.allocate(array.nbytes)
        np.from_dlpack(staged).view(np.float32)[:] = array
        buffer = self.device.allocate(array.nbytes, stream=self.stream)
        buffer.copy_from(staged, stream=self.stream)
        self.stream.sync()
        return buffer

    def get(self, buffer: Any) -> np.ndarray:
        """The floats of a buffer, after the stream's work."""
        staged = self.pinned.allocate(buffer.size)
        buffer.copy_to(staged, stream=self.stream)
        self.stream.sync()
        return np.from_dlpack(staged).view(np.float32).copy()

    def add(self, where: Any, y: Any, x: Any, a: float) -> Any:
        """Launch y += a * x on a stream or a builder, or add the node to a definition."""
        arguments = (self.config, self.add_scaled, y, x, np.float32(a), np.int32(N))
        if isinstance(where, cc.Stream | graph.GraphBuilder):
            return cc.launch(where, *arguments)
        return where.launch(*arguments)

    def capture(self, y: Any, x: Any, a: float) -> Any:
        """A finished builder of one launch."""
        builder = self.device.create_graph_builder().begin_building()
        self.add(builder, y, x, a)
        return builder.end_building()

    def run(self, executable: Any, times: int = 1) -> None:
        """Launch a graph and wait."""
        for _ in range(times):
            executable.launch(self.stream)
        self.stream.sync()
