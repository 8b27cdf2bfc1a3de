"""A step whose body can be exchanged between captures, and the bodies to exchange."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver as cu

from lowgraph import driver
from lowgraph.capture import GraphStep
from lowgraph.driver import entry, event, memory
from lowgraph.driver.launch import LaunchConfig
from lowgraph.memory import PersistentPool, download, open_window, upload
from tests.support.rig import Rig

SOURCE = Path(__file__).parent / "update.cu"
N = 300
BLOCKS = -(-N // 128)

Body = Callable[["Parts"], object]


class Parts:
    """State of a pool of its own, a step over `self.run`, and what bodies are made of."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.stream = rig.stream
        self.pool = PersistentPool(rig.device)
        self.side = driver.stream.create()
        self.events = [event.create() for _ in range(3)]
        self.pinned = memory.host_alloc(4 * N)
        self.functions = {
            name: rig.library.kernel(SOURCE, name) for name in ("add", "scale", "add_all", "hold")
        }
        self.x, self.y = self.pool.take("x", N), self.pool.take("y", N)
        self.z = self.pool.take("z", N)
        self.host_calls: list[Any] = []
        self._host = entry.HOST_FUNCTION(self.host_calls.append)
        self.run: Body = lambda parts: None
        self.said: list[str] = []
        self.make_step()
        self.reset()

    def make_step(self) -> None:
        """A cold step over `self.run`."""
        self.step = GraphStep(
            lambda stream: self.run(self),
            device=self.rig.device,
            pool=self.pool,
            stream=self.stream,
            library=self.rig.library,
            say=self.said.append,
        )

    def reset(self) -> None:
        for piece, value in ((self.x, 1.0), (self.y, 3.0), (self.z, 5.0)):
            upload(piece, np.full(N, value, np.float32), self.stream)
        ctypes.memset(self.pinned, 0, 4 * N)
        self.rig.sync()

    def state(self) -> tuple[bytes, ...]:
        return tuple(download(p, self.stream).tobytes() for p in (self.x, self.y, self.z))

    def live(self, body: Body) -> GraphStep:
        """The step with a graph of `body` that was replayed once."""
        self.run = body
        self.step()
        self.step()
        assert self.step.graph is not None, self.said
        return self.step

    def replayed(self) -> tuple[bytes, ...]:
        """The state that one replay makes of a fresh one."""
        self.reset()
        self.step.replay()
        return self.state()

    def eager(self, body: Body) -> tuple[bytes, ...]:
        """The state that the body itself makes of a fresh one."""
        self.reset()
        with self.pool.eager_pass():
            body(self)
        return self.state()

    @contextmanager
    def held(self) -> Iterator[None]:
        """What is issued on the stream from here on does not begin before the block ends."""
        flag = ctypes.c_int.from_address(self.pinned)
        flag.value = 0
        self.functions["hold"](self.stream, 1, 1, memory.host_device_pointer(self.pinned))
        try:
            yield
        finally:
            flag.value = 1

    # ---- what bodies are made of ----

    def add(self, value: float = 1.0, block: int = 128, shared: int = 0, on: int = 0) -> None:
        blocks = -(-N // block)
        self.functions["add"](on or self.stream, blocks, block, self.x, value, N, shared=shared)

    def add_to_y(self, on: int = 0) -> None:
        self.functions["add"](on or self.stream, BLOCKS, 128, self.y, 1.0, N)

    def scale(self) -> None:
        self.functions["scale"](self.stream, BLOCKS, 128, self.x, 2.0, N)

    def add_all(self) -> None:
        self.functions["add_all"](self.stream, BLOCKS, 128, self.x, self.y, N)

    def through(self) -> None:
        """Add y to x through a slice of the pass's own."""
        own = self.pool.take("own", N)
        memory.copy_dtod_async(own.address, self.y.address, 4 * N, self.stream)
        self.functions["add_all"](self.stream, BLOCKS, 128, self.x, own, N)

    def fill(self, value: int = 0, count: int = N) -> None:
        memory.memset_d32_async(self.x.address, value, count, self.stream)

    def fill_bytes(self) -> None:
        memory.memset_d8_async(self.x.address, 0, N, self.stream)

    def copy(self, nbytes: int = 4 * N, back: bool = False) -> None:
        to, source = (self.y, self.x) if back else (self.x, self.y)
        memory.copy_dtod_async(to.address, source.address, nbytes, self.stream)

    def copy_in(self) -> None:
        memory.copy_htod_async(self.x.address, self.pinned, 4 * N, self.stream)

    def call_host(self) -> None:
        address = ctypes.cast(self._host, ctypes.c_void_p).value
        entry.launch_host_function(self.stream, address or 0)

    def record_external(self, which: int = 2) -> None:
        # The flag is for captures only: 401 elsewhere.
        inside = open_window.mine() is not None
        event.record(self.events[which], self.stream, external=inside)

    def clustered(self, size: int | None) -> None:
        """Launch `add` with a cluster size, below the kernel library, which has none."""
        kernel = self.functions["add"]
        kernel.pack.store(kernel.pack.values([self.x, 1.0, N]))
        config = LaunchConfig(self.stream, 4, 128, cluster=size)
        driver.launch.launch(config, kernel.handle, kernel.pack.address)

    def cooperative(self) -> None:
        """Launch `add` cooperatively, past lowgraph."""
        kernel = self.functions["add"]
        kernel.pack.store(kernel.pack.values([self.x, 1.0, N]))
        answer = cu.cuLaunchCooperativeKernel(
            kernel.handle, BLOCKS, 1, 1, 128, 1, 1, 0, self.stream, kernel.pack.address
        )
        assert int(answer[0]) == 0, answer

    def fork(self, first: Body | None = None, second: Body | None = None) -> None:
        """One kernel, two beside each other (side stream, main stream), one."""
        self.add()
        event.record(self.events[0], self.stream)
        driver.stream.wait_event(self.side, self.events[0])
        (first or (lambda parts: parts.add_to_y(parts.side)))(self)
        (second or Parts.add)(self)
        event.record(self.events[1], self.side)
        driver.stream.wait_event(self.stream, self.events[1])
        self.add()

    def close(self) -> None:
        self.step.close()
        self.rig.sync()
        self.pool.close()
        for each in self.events:
            event.destroy(each)
        driver.stream.destroy(self.side)
        memory.host_free(self.pinned)


def chain(*bodies: Body) -> Body:
    return lambda parts: [body(parts) for body in bodies]


THREE = chain(Parts.add, Parts.scale, Parts.add)
FOUR = chain(Parts.add, Parts.scale, Parts.add, Parts.add)
