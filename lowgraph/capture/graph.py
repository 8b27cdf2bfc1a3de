"""CapturedGraph: an executable graph and everything that its kernels need to stay where it is.

The graph's nodes hold bare addresses, so this object is what keeps them valid: the pool keeps the
blocks for its owner until `close()`, modules stay loaded for the life of the process.

One thread launches, updates and sets nodes; any thread may close, also while launches are in
flight, and the collector may find the object unclosed: see `handles`.
"""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lowgraph import driver
from lowgraph.capture import watching
from lowgraph.capture.buffers import HeldBuffer, held_buffers
from lowgraph.capture.handles import GraphHandles, drain_dropped, dropped
from lowgraph.capture.lending import launcher
from lowgraph.capture.node_params import Contents, NodeRecord
from lowgraph.capture.update import update_executable
from lowgraph.capture.window import Recording
from lowgraph.driver.graph import KernelParams
from lowgraph.driver.launch import Size, three
from lowgraph.errors import CaptureFailed, ConfigError, ContextPoisoned, DriverError, PhaseError
from lowgraph.kernels.limits import Limits
from lowgraph.memory import PersistentPool, open_window

__all__ = ["CapturedGraph", "drain_dropped"]

_SWITCHABLE = ("kernel", "memset", "memcpy")


class CapturedGraph:
    """A recorded pass, ready to be launched.

    Attributes
    ----------
    label, stream, census: as recorded. launches: kernels of ours and of libraries.
    figures: what the window took from the pool. unowned: addresses that no slice covers.
    """

    def __init__(self, recording: Recording, pool: PersistentPool) -> None:
        """Instantiate and upload a recording, and take it over from its window.

        Raises CaptureFailed with the driver's error as its cause, ContextPoisoned; the recording is
        still the window's then (`Window.discard`).
        """
        self.label = recording.label
        self.stream = recording.stream
        self._handles: GraphHandles | None = None
        self._launching = False
        # It names the executable's nodes.
        self._origin = Contents(recording.graph, recording.journal, recording.bodies)
        self._adopt(recording, self._origin)
        self._paired = True
        handles = GraphHandles(recording.graph, recording.stream, recording.owner, pool)
        try:
            free, _ = driver.memory.info()
            handles.executable = driver.graph.instantiate(recording.graph)
            driver.graph.upload(handles.executable, recording.stream)
            # No call tells an executable's size. Others may free memory meanwhile: not below 0.
            taken = max(0, free - driver.memory.info()[0])
        except BaseException as error:
            if handles.executable:
                # What is being raised says more than an executable that cannot be destroyed.
                with contextlib.suppress(DriverError):
                    driver.graph.exec_destroy(handles.executable)
            if isinstance(error, ContextPoisoned) or not isinstance(error, DriverError):
                raise
            raise CaptureFailed(f"the graph of {self.label!r} cannot be used: {error}") from error
        driver.poison.graph_names[handles.executable] = self.label
        pool.note_executable(handles, self.label, taken)
        self._handles = handles
        recording.owner.adopted = True
        self._run = launcher(handles)
        self._finalizer = weakref.finalize(self, dropped.append, handles)
        self._finalizer.atexit = False
        watching.live(self, recording.began_at)

    @property
    def launches(self) -> int:
        """Kernels that a launch of the graph runs, the libraries' included."""
        return self.census.kernels

    @property
    def pool(self) -> PersistentPool:
        """What its memory comes from. Raises PhaseError once closed."""
        return self._live("asked for its pool").pool

    @property
    def retained_bytes(self) -> int:
        """Bytes of the pool that only this graph keeps; 0 once closed."""
        return 0 if self._handles is None else self._handles.pool.retained(self._handles.owner)

    def buffers(self) -> tuple[HeldBuffer, ...]:
        """What it holds of the pool: name, bytes, role; largest first. PhaseError once closed."""
        handles = self._live("asked for what it holds")
        return held_buffers(handles.pool, handles.owner, self._contents)

    @property
    def raw_executable(self) -> int:
        """The CUgraphExec, for code that launches it without us; PhaseError once closed.

        It is destroyed by `close()`, and when a recapture has to instantiate afresh. A launch that
        we do not make is not counted, and checks neither inputs and pins nor borrowed workspaces;
        `close()` waits for the stream that was recorded, no other one.
        """
        return self._live("asked for its handles").executable

    @property
    def closed(self) -> bool:
        """Whether `close()` was called."""
        return self._handles is None

    def launch(self) -> None:
        """Run the whole pass once, in stream order: one driver call."""
        self._launching = True  # before `_run` is looked at: `close` changes it, then looks here
        try:
            self._run()
        finally:
            self._launching = False

    def update(self, recording: Recording) -> None:
        """Give the executable what a second recording of the same stream holds, and take that over.

        Launches in flight run what they were launched with: its memory stays until
        `release_replaced()`. What `set_params` set is gone. Raises ExecUpdateRejected,
        ContextPoisoned: nothing has changed, and the recording is still its window's.
        """
        handles = self._live("updated")
        self.release_replaced()
        new = Contents(recording.graph, recording.journal, recording.bodies)
        self._paired = update_executable(handles.executable, self._contents, new) and self._paired
        recording.owner.adopted = True
        handles.replace(recording.graph, recording.owner)
        self._adopt(recording, new)
        with open_window.LOCK:
            if self._handles is handles:  # not closed by another thread meanwhile
                self._run = launcher(handles)
        watching.live(self, recording.began_at)

    def release_replaced(self) -> None:
        """Wait for launches in flight and give back what was held before the update. Idempotent.

        `close` and the next update do it too. Raises DriverError.
        """
        self._live("released").retire()

    # ---- nodes ----

    @property
    def raw_graph(self) -> int:
        """The CUgraph that was recorded last, which no later setting of nodes changes.

        It is destroyed by `close()` and behind an update. PhaseError once closed.
        """
        return self._live("asked for its handles").contents

    @property
    def contents(self) -> Contents:
        """Our own record of what the executable holds."""
        return self._contents

    @property
    def nodes(self) -> int:
        """Number of nodes; their indices are in the order of recording."""
        return len(self._contents.nodes)

    def node(self, index: int) -> NodeRecord:
        """What the executable holds for a node, by our own record. Raises ConfigError."""
        self._live("read")
        return self._contents.record(index)

    def find(self, name: str) -> tuple[int, ...]:
        """Indices of the nodes of a kernel, or of a type ("memset"), in order of recording."""
        self._live("read")
        return self._contents.find(name)

    def set_params(
        self,
        index: int,
        args: Mapping[str, Any] | None = None,
        *,
        grid: Size | None = None,
        block: Size | None = None,
        shared: int | None = None,
        hold: bool = True,
    ) -> None:
        """Set parameters of a kernel node for the launches to come; those not given stay.

        args: values by the parameter's name, as a launch takes them, and sizes within its limits.
        shared: bytes. hold: a slice
        of the pool that is set stays held until the graph is closed or updated, as launches in
        flight may use the one before; False for memory that is checked before each launch (a pin).
        Raises ConfigError, ArgTypeError, DriverError; nothing is set then.
        """
        handles = self._live("changed")
        record = self._contents.record(index)
        now = record.params
        if not isinstance(now, KernelParams):
            raise ConfigError(f"{record} of {self.label!r} is no kernel: it has no such parameters")
        grid = now.grid if grid is None else grid
        block = now.block if block is None else block
        shared = now.shared if shared is None else shared
        if (grid, block, shared) != (now.grid, now.block, now.shared):
            Limits(record.name, now.function).check(grid, block, shared)
        params = KernelParams(
            now.function,
            three("grid", grid),
            three("block", block),
            shared,
            self._contents.changed_arguments(index, args) if args else now.args,
        )
        if hold:
            addresses = _addresses(record, args or {}, params)
            handles.pool.hold_addresses(addresses, handles.owner)
        driver.node.set_kernel_params(handles.executable, self._place(index), params)
        self._contents.write(replace(record, params=params))

    def enable(self, index: int, enabled: bool = True) -> None:
        """Let a kernel, memset or memcpy node run in the launches to come, or not.

        Raises ConfigError for a node of another type, DriverError.
        """
        handles = self._live("changed")
        record = self._contents.record(index)
        if record.kind not in _SWITCHABLE:
            kinds = ", ".join(_SWITCHABLE)
            raise ConfigError(f"{record} of {self.label!r} cannot be disabled: only {kinds} can")
        driver.node.set_enabled(handles.executable, self._place(index), enabled)
        self._contents.write(replace(record, enabled=bool(enabled)))

    # ---- the end ----

    def close(self) -> None:
        """Wait for launches in flight, destroy the graph, give its memory back. Idempotent.

        Any thread may call it. Raises PhaseError inside a window, DriverError if a destroy failed
        (all is tried first).
        """
        if self._handles is not None and open_window.mine() is not None:
            raise PhaseError(f"the graph of {self.label!r} cannot be closed inside a window")
        if self._handles is not None:
            watching.closing(self)
        with open_window.LOCK:
            handles, self._handles = self._handles, None
        if handles is None:
            return
        self._run = self._refuse
        while self._launching:  # another thread: it may have the old `_run` in hand
            time.sleep(0)
        self._finalizer.detach()
        handles.give_back()

    # ---- inside ----

    def _adopt(self, recording: Recording, contents: Contents) -> None:
        self.census = recording.census
        self.journal = recording.journal
        self.figures = recording.figures
        self.unowned = recording.unowned
        self._contents = contents

    def _live(self, what: str) -> GraphHandles:
        if self._handles is None:
            raise PhaseError(f"the graph of {self.label!r} is closed: it cannot be {what}")
        return self._handles

    def _refuse(self) -> None:
        raise PhaseError(f"the graph of {self.label!r} is closed")

    def _place(self, index: int) -> int:
        """The node by which the executable knows node `index`."""
        if not self._paired:
            raise PhaseError(
                f"node {index} of {self.label!r}: an update took nodes that wait for each other in "
                "another order, and which went where is the driver's to know; "
                "recapture(free_first=True) makes an executable whose nodes are known"
            )
        return self._origin.nodes[index]


def _addresses(record: NodeRecord, args: Mapping[str, Any], params: KernelParams) -> set[int]:
    """Device addresses among the arguments that are set."""
    signature = record.signature
    if signature is None:
        return set()
    values = zip(signature.params, params.args, strict=True)
    given = (value for param, value in values if param.pointer and param.name in args)
    return {int.from_bytes(value, "little") for value in given} - {0}
