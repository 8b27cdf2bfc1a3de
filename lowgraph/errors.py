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
├── PoolError                 the persistent pool refuses a request
├── PhaseError                a move that the step's present phase does not allow
└── CaptureRefused            lowgraph says no to a capture; the run goes on ungraphed
    ├── CaptureAllocationError    the window needed memory that priming had not retained
    ├── EmptyCapture              nothing was recorded
    ├── CaptureIncomplete         fewer kernel nodes than launches issued: some ran at once instead
    ├── GraphHasMemoryNodes       the graph allocates or frees
    ├── SyncDuringCapture         the host waited for the device inside the window
    ├── ModuleLoadDuringCapture   a kernel was compiled or loaded inside the window
    ├── BlockingCaptureStream     the capture stream is not a non-blocking one
    ├── FrozenScalar              a by-value argument changes from step to step: a replay would not
    └── CaptureFailed             the driver invalidated or refused the capture
"""

from __future__ import annotations

__all__ = [
    "ArgTypeError",
    "BlockingCaptureStream",
    "BuildError",
    "CaptureAllocationError",
    "CaptureError",
    "CaptureFailed",
    "CaptureIncomplete",
    "CaptureRefused",
    "ConfigError",
    "ContextPoisoned",
    "DeviceUnavailable",
    "DriverError",
    "EmptyCapture",
    "FrozenScalar",
    "GraphHasMemoryNodes",
    "KernelSourceError",
    "LowgraphError",
    "ModuleLoadDuringCapture",
    "OutOfMemory",
    "PhaseError",
    "PoolError",
    "SyncDuringCapture",
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


class PhaseError(LowgraphError):
    """A call that the present phase of a step or window does not allow."""


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
    """A sticky error: every later call of this process gives the same code. Start a new process.

    On the host device `text` names the kernel, block, thread and allocation of the fault.
    """


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


class BlockingCaptureStream(CaptureRefused):
    """Capture was asked for on a stream that synchronises with the legacy stream."""


class FrozenScalar(CaptureRefused):
    """A by-value argument differs between priming and recording: a replay would freeze it."""


class CaptureFailed(CaptureRefused):
    """The driver refused or invalidated the capture; `__cause__` holds its error."""
