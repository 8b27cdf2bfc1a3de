"""Journal: what passed through the library while a pass ran, in order, with the user's file:line.

It listens at two places: the gate of the driver layer (every call, with its code) and the launch of
kernels (argument values by name). Calls of other threads are kept apart: they are not part of the
pass, but they are the suspects when the driver says that a capture was broken from outside.

A "light" journal keeps of successful calls only what the checks need, launches with their arguments
and addresses, without looking for the user's line; failing calls and refusals are as in a "full"
one. benchmarks/journal_cost.py measures what either adds to a call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from lowgraph.capture.records import Call, LaunchRecord, LibraryCall, Sized
from lowgraph.capture.stream_calls import described, stream_of
from lowgraph.capture.suspects import Suspect, Suspects
from lowgraph.driver import gate
from lowgraph.errors import CaptureRefused, ConfigError
from lowgraph.kernels import Kernel
from lowgraph.kernels import launch as kernel_launch
from lowgraph.kernels.signature import Signature
from lowgraph.memory import Scattered, Slice, open_window
from lowgraph.stages import current

__all__ = ["DETAILS", "Call", "Journal", "LaunchRecord", "LibraryCall", "Listeners"]

DETAILS = ("full", "light")
"""How much a journal keeps of calls that went well."""

Listeners = tuple[
    "gate.Observer | None", "kernel_launch.Observer | None", "open_window.Recorder | None"
]

_LAUNCH = "cuLaunchKernelEx"
_END = "cuStreamEndCapture"
# 600 is a query's answer, and reading past a kernel's last parameter is how they are counted.
_NOT_READY = 600
# The pointer attribute of memory that the driver does not know is refused: that is the answer.
_PROBES = frozenset({"cuFuncGetParamInfo", "cuPointerGetAttribute"})
_INVALIDATED = 901
_NOT_KEPT = "a line that the light journal did not keep"


class Journal:
    """See the module. `watch()` fills it; afterwards it is a record.

    detail: "full" or "light". total: driver calls of the pass; `calls` has them all, or the failing
    ones. suspects: calls of other threads. stream: that the pass is captured on, 0 if it is not.
    """

    def __init__(self, detail: str = "full") -> None:
        """Make an empty journal of the calling thread. Raises ConfigError on another detail."""
        if detail not in DETAILS:
            raise ConfigError(f"journal {detail!r}: must be one of {', '.join(DETAILS)}")
        self.detail = detail
        self.total = 0
        self.calls: list[Call] = []
        self.suspects = Suspects()
        self.stream = 0
        self.launches: list[LaunchRecord] = []
        self.library: list[LibraryCall] = []
        self.sizes: list[Sized] = []
        self.refusals: list[CaptureRefused] = []
        self._preparations: list[Callable[[int], None]] = []
        self._refused_at: list[int] = []  # for each refusal, the number of calls before it
        self._numbers: dict[int, int] | None = None  # of the whole pass, where this is a part
        self._full = detail == "full"
        self.placed = (0, False)  # see `place`
        self.after_op: Callable[[str, int], None] | None = None  # told of each, with its code
        self._thread = threading.get_ident()
        self._thread_name = threading.current_thread().name
        self._names: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {}  # by function
        self._pending: tuple[Kernel, dict[str, Any], tuple[Any, ...]] | None = None
        self._outer_calls: gate.Observer | None = None
        self._outer_launches: kernel_launch.Observer | None = None

    # ---- figures ----

    @property
    def first_failure(self) -> Call | None:
        """The first call of the pass that the driver did not answer with success.

        The end of the capture is no part of the pass: its code repeats what happened before it.
        """
        failed = (call for call in self.calls if _failed(call.op, call.code))
        return next((call for call in failed if call.op != _END), None)

    @property
    def first_refusal(self) -> CaptureRefused | None:
        """The first refusal of the pass, unless a driver call had failed before it."""
        failed = self.first_failure
        if not self.refusals or (failed is not None and failed.index < self._refused_at[0]):
            return None
        return self.refusals[0]

    @property
    def broken_between(self) -> tuple[Call | None, Call] | None:
        """The last call that went well and the first that answered 901; None if none did.

        What broke the capture lies between the two. A light journal keeps only the second.
        """
        for place, call in enumerate(self.calls):
            if call.code == _INVALIDATED:
                return (self.calls[place - 1] if place and self._full else None), call
        return None

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

    @property
    def stream_numbers(self) -> dict[int, int]:
        """Number by handle of each stream that work was sent to, 0 being the captured one."""
        if self._numbers is not None:
            return self._numbers
        used: list[int | None] = [self.stream, *(one.stream for one in self.launches)]
        used += [call.stream for call in self.calls]
        used += [call.stream for call in self.library]
        known = dict.fromkeys(handle for handle in used if handle)
        return {handle: number for number, handle in enumerate(known)} if self.stream else {}

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
        if not self.is_mine():
            name, where = threading.current_thread().name, open_window.requester()
            self.suspects.add(Suspect(name, op, _arguments(args), code, where, current()))
            return
        index = self.total
        self.total += 1
        pending = self._pending if op == _LAUNCH else None
        where = _NOT_KEPT
        if self._full or _failed(op, code):
            where = open_window.requester()
            text = pending[0].name if pending is not None else _arguments(args)
            told = index, op, text, code, where, self._thread_name, current(), self.placed[0]
            self.calls.append(Call(*told, None if op == _LAUNCH else stream_of(op, args)))
        if op == _LAUNCH:
            self._pending = None
            if code == 0:
                self._launched(index, where, args, pending)
        if self.after_op is not None:
            self.after_op(described(op, args), code)

    def on_launch(
        self, kernel: Kernel, values: dict[str, Any], config: Any, args: tuple[Any, ...]
    ) -> None:
        """The observer of kernel launches; the gate's call follows at once."""
        if self._outer_launches is not None:
            self._outer_launches(kernel, values, config, args)
        if threading.get_ident() == self._thread:
            self._pending = kernel, values, args

    def library_call(
        self,
        name: str,
        kernels: int | None,
        addresses: tuple[int, ...],
        scalars: tuple[tuple[str, Any], ...] = (),
        nodes: tuple[int, ...] = (),
        stream: int | None = None,
    ) -> None:
        """A foreign library was called; see LibraryCall."""
        if threading.get_ident() != self._thread:
            return
        where = open_window.requester()
        body = self.placed[0]
        told = name, kernels, addresses, where, current(), scalars
        self.library.append(LibraryCall(*told, nodes, body, stream))
        self.sized("call", f"a call of {name}", (name,))
        if self.after_op is not None:
            self.after_op(name, -1)

    def copied(self, body: int, twins: Mapping[int, int]) -> None:
        """The nodes of that body are others now; a library call's are told by their handles."""
        self.library = [
            replace(call, nodes=tuple(twins[node] for node in call.nodes))
            if call.body == body else call
            for call in self.library
        ]  # fmt: skip

    def of_body(self, body: int) -> Journal:
        """What went into one body, as the journal of a graph of its own."""
        inside = Journal("light")
        inside._numbers = self.stream_numbers
        inside.launches = [replace(one, body=0) for one in self.launches if one.body == body]
        inside.calls = [replace(one, body=0) for one in self.calls if one.body == body]
        inside.library = [replace(one, body=0) for one in self.library if one.body == body]
        return inside

    def sized(self, kind: str, name: str, sizes: tuple[object, ...], address: int = 0) -> None:
        """The pass took a slice of the pool, or asked for a product; see Sized."""
        if threading.get_ident() == self._thread:
            where = open_window.requester() if self._full else _NOT_KEPT
            self.sizes.append(Sized(kind, name, sizes, where, len(self.launches), address))

    def refuse(self, error: CaptureRefused) -> None:
        """Remember a refusal, so that a body which swallows it does not hide it."""
        if threading.get_ident() != self._thread:
            return
        self.refusals.append(error)
        self._refused_at.append(self.total)

    def is_mine(self) -> bool:
        """See `driver.captures.Recorder`."""
        return threading.get_ident() == self._thread

    def before_window(self, act: Callable[[int], None]) -> None:
        """See `driver.captures.Recorder`."""
        if act not in self._preparations:
            self._preparations.append(act)

    def prepare(self, stream: int) -> None:
        """Do what the pass asked for before a window over it begins. Outside of any capture."""
        for act in self._preparations:
            act(stream)

    def place(self, body: int, aside: bool) -> None:
        """See `driver.captures.Recorder`."""
        self.placed = body, aside

    def _launched(
        self,
        index: int,
        where: str,
        args: tuple[Any, ...],
        pending: tuple[Kernel, dict[str, Any], tuple[Any, ...]] | None,
    ) -> None:
        function, stream = int(args[1]), int(args[0].hStream)
        scalars: tuple[tuple[str, Any], ...] = ()
        pointers: tuple[tuple[str, int], ...] = ()
        reaches: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = ()
        signature: Signature | None = None
        if pending is not None:
            kernel, values, given = pending
            signature = kernel.signature
            by_value, by_address = self._names_of(kernel)
            scalars = tuple([(name, values[name]) for name in by_value])
            pointers = tuple([(name, values[name]) for name in by_address])
            reaches = _reaches(kernel, given)
            name = kernel.name
        else:
            name = gate.function_names.get(function, hex(function))
        sizes = _sizes(args[0])
        told = index, name, function, stream, scalars, pointers, where, signature, sizes, current()
        self.launches.append(LaunchRecord(*told, *self.placed, reaches))

    def _names_of(self, kernel: Kernel) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The kernel's parameters that are passed by value, and those that are addresses."""
        names = self._names.get(kernel.handle)
        if names is None:
            params = kernel.signature.params
            by_value = tuple(p.name for p in params if not p.pointer)
            names = by_value, tuple(p.name for p in params if p.pointer)
            self._names[kernel.handle] = names
        return names


def _sizes(config: Any) -> tuple[Any, ...]:
    """Grid, block and dynamic shared bytes of a CUlaunchConfig."""
    return (
        (config.gridDimX, config.gridDimY, config.gridDimZ),
        (config.blockDimX, config.blockDimY, config.blockDimZ),
        config.sharedMemBytes,
    )


def _failed(op: str, code: int) -> bool:
    return code not in (0, _NOT_READY) and op not in _PROBES


def _arguments(args: tuple[Any, ...]) -> str:
    return ", ".join(map(gate.readable, args))


def _reaches(
    kernel: Kernel, given: tuple[Any, ...]
) -> tuple[tuple[str, tuple[tuple[int, int], ...]], ...]:
    """Offset and bytes of what the pointers were given: slices, or parts of one."""
    found: list[tuple[str, tuple[tuple[int, int], ...]]] = []
    for param, one in zip(kernel.signature.params, given, strict=True):
        if param.pointer and isinstance(one, Slice):
            found.append((param.name, ((0, one.nbytes),)))
        elif param.pointer and isinstance(one, Scattered):
            parts = [(part.address - one.address, part.nbytes) for part in one.parts]
            found.append((param.name, tuple(parts)))
    return tuple(found)
