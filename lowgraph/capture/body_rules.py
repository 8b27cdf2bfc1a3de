"""What a body of a conditional may hold, asked of a call before the driver and of its nodes after.

Kernels, empty nodes, memsets, copies between device and pinned memory and child graphs may be
there, and further conditionals, which `Conditional` puts in their place later. The driver takes
anything else while it records, and answers the instantiation of the whole graph with 1 (measured:
allocations, host functions, event records).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lowgraph import driver
from lowgraph.capture.forks import ForkTracker
from lowgraph.capture.stream_calls import HOST_ADDRESSES, described, stream_of
from lowgraph.errors import CaptureIncomplete, CaptureRefused, ConditionalBodyInvalid
from lowgraph.memory import open_window

__all__ = [
    "Breach",
    "OpenBody",
    "illegal_node",
    "is_pageable_at",
    "judge",
    "misplaced",
    "refusal",
]

_ALLOCATES = "no body can allocate or free", "take the memory from the pool before the conditional"
_RULES = {
    "mem_alloc": _ALLOCATES,
    "mem_free": _ALLOCATES,
    "host": ("no body can call the host", "enqueue the host call before or behind the conditional"),
    "event_record": (
        "no body can record an external event",
        "record it behind the conditional; a plain event, to fork and join, is no node",
    ),
    "wait_event": (
        "no body can wait for an external event",
        "wait for it before the conditional; a plain event, to fork and join, is no node",
    ),
    "memcpy": (
        "a body copies device and pinned memory only",
        "copy from or to a staging slot of the pool, or outside of the conditional",
    ),
}
_OTHERS = "no body can hold it", "record it before or behind the conditional"
_ALLOWED = frozenset({"kernel", "empty", "memset", "memcpy", "graph"})

_TYPES = {
    "cuMemAllocAsync": "mem_alloc",
    "cuMemAllocFromPoolAsync": "mem_alloc",
    "cuMemFreeAsync": "mem_free",
    "cuLaunchHostFunc": "host",
}
_EXTERNAL = {"cuEventRecordWithFlags": "event_record", "cuStreamWaitEvent": "wait_event"}
_EVENT_STREAM_AT = {"cuEventRecord": 1, "cuEventRecordWithFlags": 1, "cuStreamWaitEvent": 0}


class OpenBody(Protocol):
    """What the guard has to know of a body of a conditional that is being recorded."""

    @property
    def graph(self) -> int:
        """The graph that it is recorded into."""

    @property
    def label(self) -> str:
        """For messages."""


@dataclass(frozen=True)
class Breach:
    """A node that a body cannot hold. label: of what issued it."""

    type: str
    label: str

    @property
    def rule(self) -> str:
        """The rule that it breaks."""
        return _RULES.get(self.type, _OTHERS)[0]

    @property
    def remedy(self) -> str:
        """What to do instead."""
        return _RULES.get(self.type, _OTHERS)[1]


def misplaced(
    body: OpenBody, outer: Sequence[ForkTracker], op: str, args: tuple[Any, ...]
) -> CaptureRefused | None:
    """The refusal of a call on a stream of the captures around the body, or for an event of theirs.

    outer: those captures.
    """
    place = _EVENT_STREAM_AT.get(op)
    stream = stream_of(op, args) if place is None else int(args[place])
    if any(stream in forks.streams for forks in outer):
        return CaptureIncomplete(
            f"{described(op, args)} was sent to stream {stream:#x} while the {body.label} is "
            "recorded: it would be recorded outside of the body",
            open_window.requester(),
            "use the stream that the body is given",
        )
    if op == "cuStreamWaitEvent" and any(int(args[1]) in forks.events for forks in outer):
        return CaptureRefused(
            f"stream {stream:#x} would wait in the {body.label} for an event of the capture around "
            "it: that would break both (902)",
            open_window.requester(),
            "leave the wait out: the body runs behind all that the conditional waits for",
        )
    return None


def judge(body: OpenBody, op: str, args: tuple[Any, ...]) -> ConditionalBodyInvalid | None:
    """The refusal of a call that would make a node which cannot be in the body; None: it may."""
    breach = _breach_of(op, args)
    if breach is None:
        return None
    node = driver.graph.count_nodes(body.graph)
    return refusal(body.label, node, breach, open_window.requester())


def _breach_of(op: str, args: tuple[Any, ...]) -> Breach | None:
    """The node that a call on a body's stream would make and that cannot be there, or None."""
    kind = _TYPES.get(op)
    if kind is None and op in _EXTERNAL and len(args) > 2 and int(args[2]) & 1:
        kind = _EXTERNAL[op]
    if kind is None and op in HOST_ADDRESSES:
        places, nbytes = HOST_ADDRESSES[op], int(args[2])
        if any(is_pageable_at(args[place], nbytes) for place in places):
            kind = "memcpy"
    return None if kind is None else Breach(kind, op)


def illegal_node(graph: int) -> tuple[int, Breach] | None:
    """The first node of a body that cannot be there, of its child graphs too; None: all can.

    The index counts the body's own nodes. A conditional of `Conditional` is an empty node so far;
    any other could not be copied into the body.
    """
    for index, node in enumerate(driver.graph.nodes(graph)):
        kind = driver.graph.node_type(node)
        if kind not in _ALLOWED or (kind == "memcpy" and _copies_pageable(node)):
            return index, Breach(kind, "a call that did not come through lowgraph")
        if kind == "graph":
            inner = illegal_node(driver.node.child_graph(node))
            if inner is not None:
                return index, Breach(inner[1].type, f"a child graph, whose node {inner[0]} it is")
    return None


def refusal(body: str, node: int, breach: Breach, where: str | None) -> ConditionalBodyInvalid:
    """The refusal of a body for one of its nodes."""
    return ConditionalBodyInvalid(
        f"node {node} of the {body} would be a {breach.type} node, issued by {breach.label}: "
        f"{breach.rule}, and the driver would refuse the whole graph (1) without saying why",
        where,
        breach.remedy,
        body=body,
        node=node,
        type=breach.type,
        label=breach.label,
        rule=breach.rule,
    )


def is_pageable_at(given: Any, nbytes: int) -> bool:
    """Whether a copy's argument is pageable host memory: a Python buffer is."""
    try:
        pointer = int(given)
    except (TypeError, ValueError):
        return True
    # In relaxed mode no call is unsafe (facts), so asking the driver cannot break the capture.
    if driver.memory.is_pinned_here(pointer, nbytes):
        return False
    with driver.stream.relaxed():
        return driver.memory.is_pageable(pointer)


def _copies_pageable(node: int) -> bool:
    params = driver.node.copy_params(node)
    source, _, target = params.direction.partition(" to ")
    ends = (params.source, source), (params.to, target)
    return any(kind == "host" and is_pageable_at(end, params.width) for end, kind in ends)
