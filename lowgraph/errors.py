"""The exceptions of lowgraph; a message says what, where, why, what to do next.

LowgraphError
├── ConfigError               bad input of the user (command lines exit with code 2)
├── DeviceUnavailable         the device asked for cannot be had in this process
├── DriverError               a driver call answered with an error code
│   ├── OutOfMemory           code 2, and only then
│   ├── CaptureError          codes 900 to 908: the rules of stream capture were broken
│   └── ContextPoisoned       sticky codes (700, 719 ...): the process has lost its device
├── BuildError                a compiler is missing or refused, or the build cache cannot be written
├── KernelSourceError         a kernel source is missing or declares what lowgraph cannot launch
├── ArgTypeError              a launch argument does not fit the kernel's declared parameter
├── LibraryError              cuBLAS answered with an error; says who holds the device's memory
├── GraphBudgetExceeded       a cache of graphs has no room for even one graph of this key
├── PoolError                 the persistent pool refuses a request
│   └── WorkspaceInUse        a workspace that graphs borrow, or that work in flight uses
├── PhaseError                a move that the step's present phase does not allow
├── GateFailed                a gate of `python -m lowgraph verify` failed
├── CaptureInProgress         another thread's open capture has no place for this call
├── InputMoved                a declared input or pin is not what the graph was recorded with
├── ExecUpdateRejected        an executable graph cannot take the parameters of another recording
└── CaptureRefused            lowgraph says no to a capture; the run goes on ungraphed
    ├── CaptureAllocationError    the window needed memory that priming had not retained
    ├── EmptyCapture              nothing was recorded
    ├── CaptureIncomplete         fewer kernel nodes than launches issued: some ran at once instead
    ├── GraphHasMemoryNodes       the graph allocates or frees
    ├── SyncDuringCapture         the host waited for the device inside the window
    ├── ModuleLoadDuringCapture   a kernel was compiled or loaded inside the window
    ├── LibraryNotReady           a library call in the window was not prepared before it
    ├── BlockingCaptureStream     the capture stream is not a non-blocking one
    ├── PageableHostMemory        a recorded copy would read or write pageable host memory
    ├── UnjoinedFork              a forked stream's work does not lead back to the capture's stream
    ├── FrozenScalar              a by-value argument changes from step to step: a replay would not
    └── CaptureFailed             the driver invalidated or refused the capture
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "ArgTypeError",
    "BlockingCaptureStream",
    "BuildError",
    "CaptureAllocationError",
    "CaptureError",
    "CaptureFailed",
    "CaptureInProgress",
    "CaptureIncomplete",
    "CaptureRefused",
    "ConfigError",
    "ContextPoisoned",
    "DeviceUnavailable",
    "DriverError",
    "EmptyCapture",
    "ExecUpdateRejected",
    "FrozenScalar",
    "GateFailed",
    "GraphBudgetExceeded",
    "GraphHasMemoryNodes",
    "InputMoved",
    "KernelSourceError",
    "LibraryError",
    "LibraryNotReady",
    "LowgraphError",
    "ModuleLoadDuringCapture",
    "OutOfMemory",
    "PageableHostMemory",
    "PhaseError",
    "PoolError",
    "SyncDuringCapture",
    "UnjoinedFork",
    "WorkspaceInUse",
]


class LowgraphError(Exception):
    """Base of everything that lowgraph raises on purpose."""


class ConfigError(LowgraphError):
    """The user's input cannot be used: one line saying what was given and what would do."""


class DeviceUnavailable(LowgraphError):
    """The device asked for is not there, or this process already has another one."""


class BuildError(LowgraphError):
    """Compiling or caching a build failed; `log` holds the compiler's output, if there was any."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message, log)
        self.message = message
        self.log = log

    def __str__(self) -> str:
        return f"{self.message}\n{self.log}".rstrip()


class KernelSourceError(LowgraphError):
    """A kernel source file is missing, or a declaration in it cannot be read."""


class PoolError(LowgraphError):
    """The persistent pool refuses a request (unknown slice, given back twice, limit reached)."""


class WorkspaceInUse(PoolError):
    """A workspace cannot be moved, given back, or used by a second stream now.

    Attributes: id (of its slice), nbytes, graphs (labels of the graphs that use it).
    """

    def __init__(self, id: int, nbytes: int, graphs: list[str], reason: str) -> None:
        super().__init__(id, nbytes, graphs, reason)
        self.id, self.nbytes, self.graphs, self.reason = id, nbytes, graphs, reason

    def __str__(self) -> str:
        return f"workspace {self.id} ({self.nbytes} bytes): {self.reason}"


class LibraryError(LowgraphError):
    """A foreign library failed. Attributes: call, status (its text), memory (who holds it)."""

    def __init__(self, call: str, status: str, memory: str) -> None:
        super().__init__(call, status, memory)
        self.call, self.status, self.memory = call, status, memory

    def __str__(self) -> str:
        return f"{self.call} failed: {self.status}" + (f". {self.memory}" if self.memory else "")


class GraphBudgetExceeded(LowgraphError):
    """One graph alone exceeds its cache's budget.

    Attributes: key, nbytes (what it would keep), budget (bytes), owners (the top owners, as text).
    """

    def __init__(self, key: object, nbytes: int, budget: int, owners: str) -> None:
        super().__init__(key, nbytes, budget, owners)
        self.key, self.nbytes, self.budget, self.owners = key, nbytes, budget, owners

    def __str__(self) -> str:
        return (
            f"the graph of key {self.key!r} would keep {self.nbytes} bytes, its cache's budget is "
            f"{self.budget}: raise it, or run the key without a graph (strict=False). {self.owners}"
        )


class GateFailed(LowgraphError):
    """One or more gates of `verify` failed; the message names them."""


class PhaseError(LowgraphError):
    """A call that the present phase of a step or window does not allow."""


class CaptureInProgress(LowgraphError):
    """Another thread's capture is open, and this call would break it or slip into it.

    Attributes: label of the capture, thread (its owner's name), since (file:line of its begin).
    """

    label: str = ""
    thread: str = ""
    since: str = ""


class InputMoved(LowgraphError):
    """A declared input or pin is not what the graph was recorded with; nothing was launched.

    Attributes
    ----------
    name: of the input. captured, given: device addresses, 0 for memory that was given back.
    shape: the given one. differs: what does: "address", "generation", "shape", "dtype", "lifetime".
    """

    def __init__(
        self,
        name: str,
        captured: int,
        given: int,
        shape: tuple[int, ...],
        *,
        differs: tuple[str, ...] = (),
        message: str = "",
    ) -> None:
        super().__init__(message or f"input {name!r} moved from {captured:#x} to {given:#x}")
        self.name = name
        self.captured = captured
        self.given = given
        self.shape = shape
        self.differs = differs


class DriverError(LowgraphError):
    """A driver call failed.

    Attributes
    ----------
    call: name of the driver function, e.g. "cuMemAlloc".
    arguments: its arguments as readable text.
    code: the CUresult as an integer; -1 when the bindings failed before a code could be read.
    name, text: the code's name ("CUDA_ERROR_OUT_OF_MEMORY") and the driver's sentence for it.
    nbytes: bytes asked for, for allocations and copies; else None.
    """

    def __init__(
        self,
        call: str,
        arguments: str,
        code: int,
        name: str,
        text: str,
        nbytes: int | None = None,
    ) -> None:
        super().__init__(call, arguments, code, name, text, nbytes)
        self.call = call
        self.arguments = arguments
        self.code = code
        self.name = name
        self.text = text
        self.nbytes = nbytes

    def __str__(self) -> str:
        size = "" if self.nbytes is None else f" [{self.nbytes} bytes]"
        return f"{self.call}({self.arguments}){size} failed: {self.code} {self.name}: {self.text}"


class OutOfMemory(DriverError):
    """CUDA_ERROR_OUT_OF_MEMORY (2)."""


class CaptureError(DriverError):
    """One of the stream capture codes, 900 to 908."""


class ContextPoisoned(DriverError):
    """A sticky error: no later call of this process is sent to the driver. Start a new process.

    On the host device `text` names the kernel, block, thread and allocation of the fault.
    Attributes: first (the first error's text), first_seen_at (file:line of the call that was told
    of it), replays (graph launches since the last successful wait, by the graph's label).
    """

    first: str = ""
    first_seen_at: str = ""
    replays: Mapping[str, int] = {}


class ArgTypeError(LowgraphError, TypeError):
    """A launch argument does not fit. Attributes: kernel, argument (its name), wanted, given."""

    def __init__(self, kernel: str, argument: str, wanted: str, given: str) -> None:
        super().__init__(kernel, argument, wanted, given)
        self.kernel = kernel
        self.argument = argument
        self.wanted = wanted
        self.given = given

    def __str__(self) -> str:
        return f"{self.kernel}: {self.argument} wants {self.wanted}, given {self.given}"


class ExecUpdateRejected(LowgraphError):
    """An executable keeps what it holds: it cannot take what a second recording holds.

    A step instantiates afresh then, and counts it; its report has this text.

    Attributes
    ----------
    reason: "TOPOLOGY_CHANGED" and the like from the driver (code 910); "CLUSTER_CHANGED",
        "NODE_DISABLED" or "ORDER_UNKNOWN" where lowgraph knows better than to ask it.
    detail: what differs, in words. node: index of the node in the new recording, or None.
    name: its kernel's name, or its type. where: file:line that issued it, "" if not known.
    changes: what differs as (what, old, new).
    """

    def __init__(
        self,
        reason: str,
        detail: str,
        *,
        node: int | None = None,
        name: str = "",
        where: str = "",
        changes: tuple[tuple[str, str, str], ...] = (),
    ) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.node = node
        self.name = name
        self.where = where
        self.changes = changes

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        differs = "".join(f"; {what}: {old} -> {new}" for what, old, new in self.changes)
        return f"{place}{self.reason}: {self.detail}{differs}"


class CaptureRefused(LowgraphError):
    """A capture is refused. Attributes: reason, where (the user's file:line, or None), remedy."""

    def __init__(self, reason: str, where: str | None = None, remedy: str = "") -> None:
        super().__init__(reason, where, remedy)
        self.reason = reason
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f"; {self.remedy}" if self.remedy else ""
        return f"{place}{self.reason}{advice}"


class CaptureAllocationError(CaptureRefused):
    """The window asked for memory that the priming pass had not retained."""


class EmptyCapture(CaptureRefused):
    """The window recorded no node."""


class CaptureIncomplete(CaptureRefused):
    """Launches issued in the window are missing from the graph: they ran at once elsewhere."""


class GraphHasMemoryNodes(CaptureRefused):
    """The recorded graph allocates or frees device memory."""


class SyncDuringCapture(CaptureRefused):
    """The host waited for, or queried, the device inside the window."""


class ModuleLoadDuringCapture(CaptureRefused):
    """A kernel would have been compiled or loaded inside the window."""


class LibraryNotReady(CaptureRefused):
    """A library's handle, workspace or algorithm is missing in the window: prepare it before."""


class BlockingCaptureStream(CaptureRefused):
    """Capture was asked for on a stream that synchronises with the legacy stream."""


class PageableHostMemory(CaptureRefused):
    """A recorded copy would read or write that host address at every replay, and it may be gone."""


class UnjoinedFork(CaptureRefused):
    """A stream was forked into the capture, and its work does not lead back. `forks`: which."""

    forks: tuple[object, ...] = ()


class FrozenScalar(CaptureRefused):
    """A by-value argument changes from step to step: a replay would freeze it.

    Attributes: kernel, parameter; primed, recorded: its values in the two passes.
    """

    def __init__(
        self,
        reason: str,
        where: str | None = None,
        remedy: str = "",
        *,
        kernel: str = "",
        parameter: str = "",
        primed: object = None,
        recorded: object = None,
    ) -> None:
        super().__init__(reason, where, remedy)
        self.kernel = kernel
        self.parameter = parameter
        self.primed = primed
        self.recorded = recorded


class CaptureFailed(CaptureRefused):
    """The driver refused or invalidated the capture; `__cause__` holds its error.

    suspects: the driver calls of other threads in the window, newest first, when the driver said
    no more than that the capture is broken.
    """

    suspects: tuple[object, ...] = ()
