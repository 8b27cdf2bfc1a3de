"""The base of all exceptions, and those that no capture has a part in."""

from __future__ import annotations

from collections.abc import Mapping


class LowgraphError(Exception):
    """Base of everything that lowgraph raises on purpose."""


class ConfigError(LowgraphError):
    """The user's input cannot be used: one line saying what was given and what would do."""


class DeviceUnavailable(LowgraphError):
    """The device asked for is not there, or this process already has another one."""


class ForkedProcess(LowgraphError):
    """This process was forked from one that had opened a device: it cannot use CUDA."""


class WrongContext(LowgraphError):
    """The calling thread has another CUDA context current than the device's own."""


class BuildError(LowgraphError):
    """Compiling or caching a build failed; `log` holds the compiler's output, if there was any."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message, log)
        self.message = message
        self.log = log

    def __str__(self) -> str:
        return f"{self.message}\n{self.log}".rstrip()


class KernelSourceError(LowgraphError):
    """A kernel source or module image is missing or unfit, or a declaration cannot be read."""


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


class AuditFailed(LowgraphError):
    """An audit of a graph found pointers that must not be followed, or races.

    Attributes: findings, all of them as text.
    """

    def __init__(self, findings: tuple[str, ...]) -> None:
        super().__init__(findings)
        self.findings = findings

    def __str__(self) -> str:
        more = len(self.findings) - 3
        told = "; ".join(self.findings[:3])
        count = "1 finding" if len(self.findings) == 1 else f"{len(self.findings)} findings"
        return f"{count}: {told}{f'; and {more} more' if more > 0 else ''}"


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
        "NODE_DISABLED", "ORDER_UNKNOWN" or "CONDITIONAL_BODIES" where lowgraph knows better than to
        ask it.
    detail: what differs, in words. node: index of the node in the new recording, or None.
    name: its kernel's name, or its type. where: file:line that issued it, stage: in which stage,
        each "" if not known.
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
        stage: str = "",
        changes: tuple[tuple[str, str, str], ...] = (),
    ) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.node = node
        self.name = name
        self.where = where
        self.stage = stage
        self.changes = changes

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        differs = "".join(f"; {what}: {old} -> {new}" for what, old, new in self.changes)
        stage = f" (stage {self.stage!r})" if self.stage else ""
        return f"{place}{self.reason}{stage}: {self.detail}{differs}"
