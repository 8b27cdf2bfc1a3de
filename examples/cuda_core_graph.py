"""A graph built with NVIDIA's cuda.core: forked and joined, timed, updated, and a refused update.

Nothing here is lowgraph's: the driver decides which device it runs on. The kernels are those of
c/capture.cu; docs/host-programs.md has the commands for the host device and for a GPU.

    python examples/cuda_core_graph.py capture.image
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

try:
    from cuda.core import (
        Buffer,
        Device,
        EventOptions,
        LaunchConfig,
        LegacyPinnedMemoryResource,
        ObjectCode,
        Stream,
        launch,
    )
    from cuda.core.graph import Graph, GraphBuilder
except ImportError as error:
    sys.exit(f"{error}; pip install cuda-core")

N, BLOCK, REPLAYS = 1000, 256, 3


class Step:
    """y += a * x beside z = x * x, then y copied to pinned memory; all of N floats."""

    def __init__(self, device: Device, stream: Stream, image: Path) -> None:
        code = ObjectCode.from_cubin(str(image))
        self.add_scaled, self.square = code.get_kernel("add_scaled"), code.get_kernel("square")
        self.device, self.stream = device, stream
        self.x, self.y, self.z = (device.allocate(4 * N, stream=stream) for _ in range(3))
        pinned = LegacyPinnedMemoryResource()
        self.host: Buffer = pinned.allocate(4 * N, stream=stream)
        self.result = np.from_dlpack(self.host).view(np.float32)  # the same memory
        self.result[:] = np.arange(N) % 7
        self.x.copy_from(self.host, stream=stream)
        self.y.fill(0, stream=stream)
        stream.sync()

    def capture(self, a: float, with_square: bool = True) -> GraphBuilder:
        """Record one step; the value of `a` and the addresses are copied into the graph here."""
        config = LaunchConfig(grid=-(-N // BLOCK), block=BLOCK)
        builder = self.device.create_graph_builder().begin_building("thread_local")
        left, right = builder.split(2)
        launch(left, config, self.add_scaled, self.y, self.x, np.float32(a), np.int32(N))
        if with_square:
            launch(right, config, self.square, self.z, self.x, np.int32(N))
        builder = GraphBuilder.join(left, right)
        self.y.copy_to(self.host, stream=builder)
        return builder.end_building()

    def replay(self, graph: Graph, times: int, expected: float) -> None:
        """Launch, wait, compare y with `expected` times x (small integers: exact), print."""
        begin = self.stream.record(options=EventOptions(timing_enabled=True))
        for _ in range(times):
            graph.launch(self.stream)
        end = self.stream.record(options=EventOptions(timing_enabled=True))
        end.sync()
        assert end - begin >= 0, "milliseconds between two events of one stream"
        np.testing.assert_array_equal(self.result, expected * (np.arange(N) % 7))
        print(f"{times} replays: y = {expected:g} x")


def main(image: Path) -> int:
    """Run all of it on device 0; returns the exit code."""
    device = Device(0)
    device.set_current()
    print(f"device: {device.name}")
    step = Step(device, device.create_stream(), image)
    graph = step.capture(a=2.0).complete()
    step.replay(graph, REPLAYS, 6.0)  # 3 times a = 2
    graph.update(step.capture(a=5.0))
    step.replay(graph, REPLAYS, 21.0)  # and 3 times a = 5
    try:
        graph.update(step.capture(a=7.0, with_square=False))
    except Exception as error:  # cuda.core exports no name for it
        print(f"refused: {error}")
    else:
        raise AssertionError("an update to another topology was accepted")
    step.replay(graph, 1, 26.0)  # the graph is as it was: a = 5
    step.z.copy_to(step.host, stream=step.stream)
    step.stream.sync()
    np.testing.assert_array_equal(step.result, (np.arange(N) % 7) ** 2)
    print("ok")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} IMAGE (made by python -m lowgraph compile)")
    sys.exit(main(Path(sys.argv[1])))
