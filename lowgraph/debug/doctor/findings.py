"""What a doctor writes down, one dataclass a kind; `where` is the user's file:line, "" if unknown.

times: how often the same was seen. Lines for people are in `report`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = [
    "JOINED",
    "LOWGRAPH",
    "OTHERS",
    "THROUGH_US",
    "Advice",
    "CaptureSeen",
    "FrozenFound",
    "Leak",
    "RaceFound",
    "RefusalSeen",
    "RefusedCall",
    "Unowned",
]

LOWGRAPH, THROUGH_US, OTHERS = "lowgraph", "lowgraph.driver", "others"
"""Who made a capture: a window of lowgraph's, the bare calls of lowgraph.driver, somebody else."""

JOINED = "joined"
"""The outcome of a part of lowgraph's in a capture of others: its nodes are those that it added."""


@dataclass
class RefusedCall:
    """Calls that a capture was the reason to refuse. code: the driver's answer."""

    call: str
    code: int
    where: str
    own: bool = True
    times: int = 1


@dataclass
class CaptureSeen:
    """A recorded graph, or an attempt by driver calls.

    by: LOWGRAPH, THROUGH_US or OTHERS. outcome: "recorded", JOINED, "failed" or "open" (it never
    ended).
    code: of its end. nodes: by kind; kernels: nodes by the kernel's name; stages: by stage, nodes
    by kind; stages and lines of nodes are known of lowgraph's graphs only.
    broken: the call that broke it; refused: calls that were refused then.
    """

    label: str
    by: str
    mode: str
    began_at: str
    outcome: str = "open"
    code: int = 0
    nodes: dict[str, int] = field(default_factory=dict)
    kernels: dict[str, int] = field(default_factory=dict)
    stages: dict[str, dict[str, int]] = field(default_factory=dict)
    broken: RefusedCall | None = None
    refused: list[RefusedCall] = field(default_factory=list)
    times: int = 1

    @property
    def size(self) -> int:
        """Number of nodes."""
        return sum(self.nodes.values())

    def count(self, kind: str, kernel: str = "", number: int = 1) -> None:
        """Add nodes of a kind."""
        self.nodes[kind] = self.nodes.get(kind, 0) + number
        if kernel:
            self.kernels[kernel] = self.kernels.get(kernel, 0) + number

    @property
    def is_sound(self) -> bool:
        """Whether it became a graph that does something, and nothing was refused on the way."""
        return self.outcome in ("recorded", JOINED) and bool(self.nodes) and not self.refused


@dataclass
class Leak:
    """What was asked for while a capture was open, and is in no replay.

    kind: "work", "allocation", "synchronisation" or "call" (any other). call: the driver function,
    or "" where several are meant. what: "kernel NAME", "memcpy" ... stream: that it ran on, 0 if
    none.
    stopped: refused before it reached the driver.
    """

    kind: str
    capture: str
    call: str
    what: str
    where: str
    began_at: str = ""
    stream: int = 0
    stopped: bool = False
    times: int = 1


@dataclass
class Unowned:
    """A pointer of a graph that nothing is known to keep valid. kind: in words of `debug.stale`.

    nodes: how many of the graph have it, of this kernel and argument; `node` is the first.
    """

    graph: str
    node: int
    kernel: str
    argument: str
    address: int
    kind: str
    where: str
    text: str
    nodes: int = 1


@dataclass
class FrozenFound:
    """A value that every replay repeats. recorded, later: as text; `later` is another step's."""

    graph: str
    kernel: str
    argument: str
    recorded: str
    later: str
    where: str
    refused: bool
    times: int = 1


@dataclass
class RefusalSeen:
    """A reason why lowgraph did not record. type: the error's name. broken: see `bisect.Break`.

    reason: without what `broken` and `suspects` say.
    """

    label: str
    type: str
    reason: str
    where: str
    stage: str
    remedy: str
    began_at: str = ""
    broken: str = ""
    suspects: tuple[str, ...] = ()
    times: int = 1


@dataclass
class RaceFound:
    """Two nodes of a graph that may touch the same bytes at once. certain: see `debug.Race`."""

    graph: str
    memory: str
    certain: bool
    text: str


@dataclass(frozen=True)
class Advice:
    """What to do about one kind of finding, and the page that says more."""

    about: str
    text: str
    page: str
