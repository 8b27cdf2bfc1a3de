"""Journal: what passed through the library while a pass ran, in order, with the user's file:line.

It listens at two places: the gate of the driver layer (every call, with its code) and the launch of
kernels (argument values by name). Calls of other threads are kept apart: they are not part of the
pass, but they are the suspects when the driver says that a capture was broken from outside.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lowgraph.driver import gate
from lowgraph.errors import CaptureRefused
from lowgraph.kernels import Kernel
from lowgraph.kernels import launch as kernel_launch
from lowgraph.memory import open_window

__all__ = ["Call", "Journal", "LaunchRecord", "LibraryCall", "Listeners"]

Listeners = tuple[
    "gate.Observer | None", "kernel_launch.Observer | None", "open_window.Recorder | None"
]

_LAUNCH = "cuLaunchKernelEx"
# 600 is a query's answer, and reading past a kernel's last parameter is how they are counted.
_NOT_READY = 600
_PROBES = frozenset({"cuFuncGetParamInfo"})


@dataclass(frozen=True)
class Call:
    """One driver call. args: readable text. code: the CUresult. where: the user's file:line."""

    index: int
    op: str
    args: str
    code: int
    where: str
    thread: str

    def __str__(self) -> str:
        return f"{self.where}: {self.op}({self.args}) answered {self.code}"


@dataclass(frozen=True)
class LaunchRecord:
    """One kernel launch: by-value arguments and pointers (addresses) by name, in order.

    index: its place among the journal's calls. sizes: grid, block, dynamic shared bytes.
    """

    index: int
    kernel: str
    function: int
    stream: int
    scalars: tuple[tuple[str, Any], ...]
    pointers: tuple[tuple[str, int], ...]
    where: str
    sizes: tuple[Any, ...] = ()


@dataclass(frozen=True)
class LibraryCall:
    """A call of a foreign library. kernels: kernel nodes it added, None if not known.

    addresses: device memory that its kernels use.
    """

    name: str
    kernels: int | None
    addresses: tuple[int, ...]
    where: str


class Journal:
    """See the module. `watch()` fills it; afterwards it is a record."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.others: list[Call] = []
        self.launches: list[LaunchRecord] = []
        self.library: list[LibraryCall] = []
        self.refusals: list[CaptureRefused] = []
        self._thread = threading.current_thread()
        self._pending: tuple[Kernel, dict[str, Any]] | None = None
        self._outer_calls: gate.Observer | None = None
        self._outer_launches: kernel_launch.Observer | None = None

    # ---- figures ----

    @property
    def first_failure(self) -> Call | None:
        """The first call of the pass that the driver did not answer with success."""
        failures = (call for call in self.calls if call.code not in (0, _NOT_READY))
        return next((call for call in failures if call.op not in _PROBES), None)

    @property
    def library_kernels(self) -> int:
        """Kernels launched by library calls; a call of unknown number counts once."""
        return sum(1 if call.kernels is None else call.kernels for call in self.library)

    @property
    def kernel_launches(self) -> int:
        """All kernels of the pass, the libraries' included."""
        return len(self.launches) + self.library_kernels

    @property
    def addresses(self) -> set[int]:
        """Device addresses that the pass's kernels were given, null left out."""
        given = {value for launch in self.launches for _, value in launch.pointers}
        given |= {value for call in self.library for value in call.addresses}
        return given - {0}

    # ---- listening ----

    @contextmanager
    def watch(self) -> Iterator[Journal]:
        """Listen until the block ends, beside whatever listened before."""
        before = self.listen()
        try:
            yield self
        finally:
            self.stop(before)

    def listen(self) -> Listeners:
        """Start listening; returns what `stop` needs."""
        before = gate.observer, kernel_launch.observer, open_window.recorder()
        self._outer_calls, self._outer_launches = before[0], before[1]
        gate.observer = self.on_call
        kernel_launch.observer = self.on_launch
        open_window.set_recorder(self)
        return before

    @staticmethod
    def stop(before: Listeners) -> None:
        """Put back what listened before."""
        gate.observer, kernel_launch.observer = before[0], before[1]
        open_window.set_recorder(before[2])

    def on_call(self, op: str, args: tuple[Any, ...], code: int) -> None:
        """The gate's observer."""
        if self._outer_calls is not None:
            self._outer_calls(op, args, code)
        thread = threading.current_thread()
        mine = thread is self._thread
        calls = self.calls if mine else self.others
        pending = self._pending if mine else None
        text = pending[0].name if pending is not None else ", ".join(map(gate.readable, args))
        call = Call(len(calls), op, text, code, open_window.requester(), thread.name)
        calls.append(call)
        if mine and op == _LAUNCH:
            self._pending = None
            if code == 0:
                self._launched(call, args, pending)

    def on_launch(self, kernel: Kernel, values: dict[str, Any], config: Any) -> None:
        """The observer of kernel launches; the gate's call follows at once."""
        if self._outer_launches is not None:
            self._outer_launches(kernel, values, config)
        if threading.current_thread() is self._thread:
            self._pending = kernel, values

    def library_call(self, name: str, kernels: int | None, addresses: tuple[int, ...]) -> None:
        """A foreign library was called; see LibraryCall."""
        self.library.append(LibraryCall(name, kernels, addresses, open_window.requester()))

    def refuse(self, error: CaptureRefused) -> None:
        """Remember a refusal, so that a body which swallows it does not hide it."""
        self.refusals.append(error)

    def _launched(
        self, call: Call, args: tuple[Any, ...], pending: tuple[Kernel, dict[str, Any]] | None
    ) -> None:
        function, stream = int(args[1]), int(args[0].hStream)
        scalars: tuple[tuple[str, Any], ...] = ()
        pointers: tuple[tuple[str, int], ...] = ()
        if pending is not None:
            kernel, values = pending
            params = kernel.signature.params
            scalars = tuple((p.name, values[p.name]) for p in params if not p.pointer)
            pointers = tuple((p.name, values[p.name]) for p in params if p.pointer)
            name = kernel.name
        else:
            name = gate.function_names.get(function, hex(function))
        record = LaunchRecord(
            call.index, name, function, stream, scalars, pointers, call.where, _sizes(args[0])
        )
        self.launches.append(record)


def _sizes(config: Any) -> tuple[Any, ...]:
    """Grid, block and dynamic shared bytes of a CUlaunchConfig."""
    return (
        (config.gridDimX, config.gridDimY, config.gridDimZ),
        (config.blockDimX, config.blockDimY, config.blockDimZ),
        config.sharedMemBytes,
    )
