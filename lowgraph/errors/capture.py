"""What captures and their graphs raise: the refusals, and failures of host calls."""

from __future__ import annotations

from lowgraph.errors.base import LowgraphError


class CaptureRefused(LowgraphError):
    """A capture is refused.

    Attributes: reason, where (the user's file:line, or None), remedy; stage: that it happened in,
    "" if none or not known; differs: where the recorded pass had by then met other sizes than its
    priming pass, "" if it had not.
    """

    differs: str = ""

    def __init__(
        self, reason: str, where: str | None = None, remedy: str = "", *, stage: str = ""
    ) -> None:
        super().__init__(reason, where, remedy)
        self.reason = reason
        self.where = where
        self.remedy = remedy
        self.stage = stage

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f"; {self.remedy}" if self.remedy else ""
        before = f". Up to there: {self.differs}" if self.differs else ""
        stage = f" (stage {self.stage!r})" if self.stage else ""
        return f"{place}{self.reason}{stage}{advice}{before}"


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
        stage: str = "",
    ) -> None:
        super().__init__(reason, where, remedy, stage=stage)
        self.kernel = kernel
        self.parameter = parameter
        self.primed = primed
        self.recorded = recorded


class ConditionalBodyInvalid(CaptureRefused):
    """The body of a conditional has a node that no body may have; the driver would say 1, at the
    instantiation, and nothing else.

    Attributes: body (its label), node (index in the body), type ("mem_alloc", "host" ...), label
    (of what issued it), rule.
    """

    def __init__(
        self,
        reason: str,
        where: str | None = None,
        remedy: str = "",
        *,
        body: str = "",
        node: int = -1,
        type: str = "",
        label: str = "",
        rule: str = "",
    ) -> None:
        super().__init__(reason, where, remedy)
        self.body, self.node, self.type = body, node, type
        self.label, self.rule = label, rule


class CaptureFailed(CaptureRefused):
    """The driver refused or invalidated the capture; `__cause__` holds its error.

    suspects: the driver calls of other threads in the window, newest first, when the driver said
    no more than that the capture is broken. broken: where, as a `capture.bisect.Break`, if the
    window was bisected; else None. brief: the reason without what those two say, "" if it is.
    """

    suspects: tuple[object, ...] = ()
    broken: object = None
    brief: str = ""


class HostCallbackError(LowgraphError):
    """A host call raised in the device's thread; `__cause__` has what. Raised once, later.

    Attributes: name (of the HostCall), replay (of its recording, from 1; 0: an unrecorded pass),
    dropped (failures after this one that were not kept).
    """

    dropped: int = 0

    def __init__(self, name: str, replay: int, what: str) -> None:
        super().__init__(name, replay, what)
        self.name, self.replay, self.what = name, replay, what

    def __str__(self) -> str:
        when = f"in replay {self.replay}" if self.replay else "in an unrecorded pass"
        more = f"; {self.dropped} later failures were not kept" if self.dropped else ""
        return f"host call {self.name!r} failed {when}: {self.what}{more}"


class CudaInHostCallback(HostCallbackError):
    """A host call made a driver call, which was not sent: the driver would deadlock or refuse."""
