"""The exceptions of lowgraph; a message says what, where, why, what to do next.

LowgraphError
├── ConfigError               bad input of the user (command lines exit with code 2)
├── DeviceUnavailable         the device asked for cannot be had in this process
├── ForkedProcess             the process was forked from one that had opened a device
├── WrongContext              another CUDA context than the device's is current
├── DriverError               a driver call answered with an error code
│   ├── OutOfMemory           code 2, and only then
│   ├── CaptureError          codes 900 to 908: the rules of stream capture were broken
│   └── ContextPoisoned       sticky codes (700, 719 ...): the process has lost its device
├── BuildError                a compiler is missing or refused, or the build cache cannot be written
├── KernelSourceError         a kernel source or image is missing, or holds what cannot be launched
├── ArgTypeError              a launch argument does not fit the kernel's declared parameter
├── LibraryError              cuBLAS answered with an error; says who holds the device's memory
├── GraphBudgetExceeded       a cache of graphs has no room for even one graph of this key
├── PoolError                 the persistent pool refuses a request
│   └── WorkspaceInUse        a workspace that graphs borrow, or that work in flight uses
├── PhaseError                a move that the step's present phase does not allow
├── GateFailed                a gate of `python -m lowgraph verify` failed
├── AuditFailed               an audit of a graph found stale pointers or races
├── CaptureInProgress         another thread's open capture has no place for this call
├── HostCallbackError         a host call of a graph raised; told at the next step, once
│   └── CudaInHostCallback    it made a driver call, which was not sent
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
    ├── ConditionalBodyInvalid    the body of a conditional has a node that no body may have
    ├── FrozenScalar              a by-value argument changes from step to step: a replay would not
    └── CaptureFailed             the driver invalidated or refused the capture
"""

from __future__ import annotations

from lowgraph.errors.base import (
    ArgTypeError,
    AuditFailed,
    BuildError,
    CaptureError,
    CaptureInProgress,
    ConfigError,
    ContextPoisoned,
    DeviceUnavailable,
    DriverError,
    ExecUpdateRejected,
    ForkedProcess,
    GateFailed,
    GraphBudgetExceeded,
    InputMoved,
    KernelSourceError,
    LibraryError,
    LowgraphError,
    OutOfMemory,
    PhaseError,
    PoolError,
    WorkspaceInUse,
    WrongContext,
)
from lowgraph.errors.capture import (
    BlockingCaptureStream,
    CaptureAllocationError,
    CaptureFailed,
    CaptureIncomplete,
    CaptureRefused,
    ConditionalBodyInvalid,
    CudaInHostCallback,
    EmptyCapture,
    FrozenScalar,
    GraphHasMemoryNodes,
    HostCallbackError,
    LibraryNotReady,
    ModuleLoadDuringCapture,
    PageableHostMemory,
    SyncDuringCapture,
    UnjoinedFork,
)

__all__ = [
    "ArgTypeError",
    "AuditFailed",
    "BlockingCaptureStream",
    "BuildError",
    "CaptureAllocationError",
    "CaptureError",
    "CaptureFailed",
    "CaptureInProgress",
    "CaptureIncomplete",
    "CaptureRefused",
    "ConditionalBodyInvalid",
    "ConfigError",
    "ContextPoisoned",
    "CudaInHostCallback",
    "DeviceUnavailable",
    "DriverError",
    "EmptyCapture",
    "ExecUpdateRejected",
    "ForkedProcess",
    "FrozenScalar",
    "GateFailed",
    "GraphBudgetExceeded",
    "GraphHasMemoryNodes",
    "HostCallbackError",
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
    "WrongContext",
]
