"""The objects of one scenario run: streams, events, memory, graphs; made before it, freed after."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from cuda.bindings import driver as cu

from lowgraph.driver import Device, gate
from lowgraph.errors import DriverError

HERE = Path(__file__).resolve().parent
BYTES = 4096
HOLD_SECONDS = 10
WORDS_FROM = 256  # bytes into the pinned memory
STREAM_NAMES = ("s", "t", "u", "b")
KERNELS = ("noop", "noop2", "hold", "stray_store", "cluster_size")


def attempt(function: Callable[..., Any], *args: Any) -> tuple[int, Any]:
    """Make a driver call through the gate: (code, results), the code being data here, no error.

    Code -1: the driver lacks the function, or the bindings refused the call; results is the text.
    """
    try:
        code, *results = gate.attempt(function, *args)
    except DriverError as error:
        return error.code, error.text
    return int(code), results[0] if len(results) == 1 else tuple(results)


@dataclass(frozen=True)
class NamedNode:
    """A node, and the graph that takes it along when it is destroyed."""

    node: Any
    graph: int


class World:
    """One scenario's objects on a device. `close` ends every capture and frees everything."""

    def __init__(self, device: Device, image: bytes, mode: str) -> None:
        self.device = device
        self.image = image
        self.mode = mode
        self.module = gate.call(cu.cuModuleLoadData, image)
        self.functions = {
            name: gate.call(cu.cuModuleGetFunction, self.module, name.encode()) for name in KERNELS
        }
        for function in self.functions.values():
            # A first launch loads the kernel and may wait for the device: for ever, behind `hold`.
            gate.call(cu.cuFuncLoad, function)
        flags = {name: 0 if name == "b" else 1 for name in STREAM_NAMES}
        self.streams = {n: gate.call(cu.cuStreamCreate, flag) for n, flag in flags.items()}
        self.fixed_streams = {"legacy": cu.CUstream(0), "per_thread": cu.CUstream(2)}
        self.altered: set[str] = set()  # those whose attributes a step has set
        timing = {"e1": 2, "e2": 2, "e3": 2, "t1": 0, "t2": 0}
        self.events = {n: gate.call(cu.cuEventCreate, flag) for n, flag in timing.items()}
        self.buffers = [gate.call(cu.cuMemAlloc, BYTES) for _ in range(2)]
        self.pinned = gate.call(cu.cuMemHostAlloc, BYTES, 2)
        self.pageable = (ctypes.c_char * BYTES)()
        self.flag = ctypes.c_int.from_address(int(self.pinned))
        ctypes.memset(int(self.pinned), 0, BYTES)  # the flag and the words that streams wait for
        self.memory: dict[str, Any] = {}
        self.graph_memory: dict[str, Any] = {}  # addresses of allocation nodes
        self.host_memory: list[Any] = []
        self.registered: int | None = None
        self.graphs: dict[str, Any] = {}
        self.nodes: dict[str, NamedNode] = {}  # those added one by one
        self.execs: dict[str, Any] = {}
        self.modules: dict[str, Any] = {}
        self.handles: dict[str, int] = {}  # of conditions
        self.conditional_nodes: dict[str, int] = {}
        self.bodies: dict[str, Any] = {}  # graphs of those nodes, which go with them
        self.bodies_of: dict[str, list[str]] = {}  # their names, by the node's
        self.all_good = True  # no step has failed so far
        self.libraries: dict[str, Any] = {}
        self.user_objects: dict[str, Any] = {}  # the driver's to free once their references go
        self.contexts = {"home": int(device.context)}
        self.context_ids: dict[str, int] = {}
        self.lost: set[str] = set()  # destroyed contexts: what is called `c.x` went with `c`
        self.pools: dict[str, int] = {}
        self.ranges: dict[str, tuple[int, int]] = {}  # reserved addresses: start and bytes
        self.physical: dict[str, int] = {}  # memory that is mapped to them
        self.keep: list[Any] = []  # host functions and argument storage, until the world closes
        self.other = ThreadPoolExecutor(1, initializer=device.make_current)
        self.watch: threading.Timer | None = None
        self.stuck = False

    def hold(self) -> int:
        """Argument array of a kernel that waits for `flag`; let go of it if nobody else does."""
        self.watch = threading.Timer(HOLD_SECONDS, self._let_go)
        self.watch.start()
        return self.pack(ctypes.c_void_p(int(self.pinned)))

    def _let_go(self) -> None:
        self.stuck = True
        self.flag.value = 1

    def release(self) -> None:
        """Let held kernels end. Raises RuntimeError when a call had waited for them meanwhile."""
        if self.watch is not None:
            self.watch.cancel()
        self.flag.value = 1
        if self.stuck:
            raise RuntimeError(f"a call waited {HOLD_SECONDS} s for a kernel held by the scenario")

    def stream(self, name: str) -> Any:
        """The handle of a named stream."""
        return self.fixed_streams.get(name) or self.streams[name]

    def context(self, name: str) -> Any:
        """The handle of a named context; none: the null handle."""
        return cu.CUcontext(self.contexts[name] if name != "none" else 0)

    def context_name(self, handle: Any) -> str:
        """The name of a context's handle."""
        known = {value: name for name, value in self.contexts.items()} | {0: "none"}
        return known.get(int(handle), "another")

    def address(self, name: str) -> int:
        """buffer, other, inside, pinned, pageable, null, w0 to w7 (words of pinned memory that the
        world sets to 0), or memory by its name."""
        fixed = {
            "buffer": int(self.buffers[0]),
            "other": int(self.buffers[1]),
            "inside": int(self.buffers[0]) + 64,
            "pinned": int(self.pinned),
            "pageable": ctypes.addressof(self.pageable),
            "null": 0,
        } | {f"w{n}": int(self.pinned) + WORDS_FROM + 8 * n for n in range(8)}
        if name in self.ranges:
            return self.ranges[name][0]
        home = self.memory if name in self.memory else self.graph_memory
        return fixed[name] if name in fixed else int(home[name])

    def status(self) -> list[int]:
        """Capture status of s, t, u and b: 0 none, 1 active, 2 invalidated; -code on an error."""
        if "home" in self.lost:
            return [0] * len(STREAM_NAMES)  # a driver may crash on them
        found = []
        for name in STREAM_NAMES:
            if name not in self.streams:
                found.append(0)
                continue
            code, value = attempt(cu.cuStreamIsCapturing, self.streams[name])
            found.append(-code if code else int(value))
        return found

    def keep_graph(self, name: str, graph: Any) -> None:
        """Name a graph; a graph that had the name before is freed when the world closes."""
        if name in self.graphs:
            self.graphs[f"{name}#{len(self.graphs)}"] = self.graphs[name]
        self.graphs[name] = graph

    def pack(self, *values: Any) -> int:
        """Address of a kernel's argument array; the storage lives as long as the world."""
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        self.keep.append((values, pointers))
        return ctypes.addressof(pointers)

    def pack_buffers(self, swapped: bool = False) -> int:
        """`pack` of the idle kernels' arguments: the two buffers, or the other way round."""
        first, second = (int(buffer) for buffer in self.buffers[:: -1 if swapped else 1])
        pointers = ctypes.c_void_p(first), ctypes.c_void_p(second)
        return self.pack(*pointers, ctypes.c_int(7), ctypes.c_float(1.5))

    def close(self) -> None:
        """Release held kernels, end captures, free everything. Answers are not looked at:
        after a fault every call fails, and that is what the scenario was for."""
        if self.watch is not None:
            self.watch.cancel()
        if "home" in self.lost:
            self.other.shutdown(wait=True)
            return  # nothing of it is left, and a driver may crash on what it was
        self.flag.value = 1
        self.other.shutdown(wait=True)
        self._make_home_current()
        for handle in [*self._left(self.streams)] * 2:
            code, status = attempt(cu.cuStreamIsCapturing, handle)
            if code == 0 and int(status) != 0:
                attempt(cu.cuStreamEndCapture, handle)
        attempt(cu.cuCtxSynchronize)
        self._restore_fixed()
        for function, *arguments in self._releases():
            attempt(function, *arguments)

    def _restore_fixed(self) -> None:
        """Give the streams that outlive the world what a new one has."""
        altered = self.altered & set(self.fixed_streams)
        if altered:
            fresh = attempt(cu.cuStreamCreate, 1)[1]
            for name in altered:
                attempt(cu.cuStreamCopyAttributes, self.fixed_streams[name], fresh)
            attempt(cu.cuStreamDestroy, fresh)

    def _make_home_current(self) -> None:
        """Take whatever the scenario left on this thread's stack of contexts off it."""
        while attempt(cu.cuCtxPopCurrent)[0] == 0:
            pass
        attempt(cu.cuCtxSetCurrent, self.context("home"))

    def _left(self, named: dict[str, Any]) -> list[Any]:
        """Those of the objects whose context is not destroyed."""
        gone = tuple(f"{name}." for name in self.lost)
        return [value for name, value in named.items() if not name.startswith(gone)]

    def _releases(self) -> list[tuple[Any, ...]]:
        graphs = not self.lost  # a graph may hold nodes of a context that is gone: it stays
        others = (name for name in self.contexts if name != "home" and name not in self.lost)
        found: list[tuple[Any, ...]] = [
            *((cu.cuGraphExecDestroy, handle) for handle in self.execs.values() if graphs),
            *((cu.cuGraphDestroy, handle) for handle in self.graphs.values() if graphs),
            *((cu.cuEventDestroy, handle) for handle in self._left(self.events)),
            *((cu.cuStreamDestroy, handle) for handle in self._left(self.streams)),
            *((cu.cuMemFree, address) for address in [*self._left(self.memory), *self.buffers]),
            *((cu.cuMemFreeHost, pointer) for pointer in [*self.host_memory, self.pinned]),
            *((cu.cuModuleUnload, handle) for handle in [*self._left(self.modules), self.module]),
            *((cu.cuLibraryUnload, handle) for handle in self.libraries.values()),
            *((cu.cuMemUnmap, start, size) for start, size in self.ranges.values()),
            *((cu.cuMemRelease, handle) for handle in self.physical.values()),
            *((cu.cuMemAddressFree, start, size) for start, size in self.ranges.values()),
            *((cu.cuMemPoolDestroy, cu.CUmemoryPool(pool)) for pool in self.pools.values()),
            *((cu.cuCtxDestroy, self.context(name)) for name in others),
        ]
        if self.registered is not None:
            found.append((cu.cuMemHostUnregister, self.registered))
        return found


@lru_cache  # hundreds of tests ask for it
def module_image(device: Device) -> bytes:
    """The scenarios' kernels, compiled for the device."""
    return bytes(device.compile(HERE / "kernels.cu", [], {}))
