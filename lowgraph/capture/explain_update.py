"""Why an executable cannot take a second recording, from our own record of both.

The driver names at most one node and a reason of one word; what stood there, what stands there now,
and which line of the user's issued it is known to the journals of the two windows.
"""

from __future__ import annotations

from lowgraph.capture.node_params import Contents, NodeRecord
from lowgraph.driver.graph import UpdateResult
from lowgraph.errors import DriverError, ExecUpdateRejected
from lowgraph.memory import counted

__all__ = [
    "cluster_changed",
    "explain",
    "failed_call",
    "has_bodies",
    "node_disabled",
    "order_unknown",
]

Change = tuple[str, str, str]

_NAMED = 4  # nodes that are named where several are new or gone


def explain(result: UpdateResult, old: Contents, new: Contents) -> ExecUpdateRejected:
    """The rejection for an update that the driver refused with code 910."""
    said = f"cuGraphExecUpdate answered {result.code} {result.reason}"
    if len(old.nodes) != len(new.nodes):
        return _other_count(said, result.reason, old, new)
    place = None if result.node is None else new.index_of.get(result.node)
    if place is None:
        place = _first_difference(old, new)
    if place is None:
        return ExecUpdateRejected(result.reason, f"{said}; both recordings hold the same for us")
    before, now = old.record(place), new.record(place)
    changes = _differences(old, new, place)
    detail = f"{said} at {now}, which was {before}"
    source = None if result.from_node is None else new.index_of.get(result.from_node)
    if source is not None:
        detail += f"; the edge from {new.record(source)}"
    return _rejected(result.reason, detail, now, changes)


def cluster_changed(old: Contents, new: Contents, place: int) -> ExecUpdateRejected:
    """The rejection for a kernel whose cluster size differs: the driver would not tell."""
    now = new.record(place)
    detail = (
        f"the cluster size of {now} differs: cuGraphExecUpdate would answer success and keep "
        "the old one"
    )
    change = "cluster", f"{old.record(place).cluster}", f"{now.cluster}"
    return _rejected("CLUSTER_CHANGED", detail, now, (change,))


def has_bodies(old: Contents, new: Contents) -> ExecUpdateRejected:
    """The rejection for graphs with conditional nodes, whose bodies we cannot compare."""
    detail = (
        f"the recordings have {len(old.bodies)} and {len(new.bodies)} bodies of conditionals: each "
        "has conditions of its own, and a kernel in a body would keep its old cluster size untold"
    )
    return ExecUpdateRejected("CONDITIONAL_BODIES", detail)


def node_disabled(old: Contents) -> ExecUpdateRejected:
    """The rejection for an executable with disabled nodes."""
    first = old.disabled[0]
    detail = (
        f"{len(old.disabled)} nodes of the executable are disabled, {first} first: a recording has "
        "every node enabled, and what an update makes of disabled ones is not specified"
    )
    return _rejected("NODE_DISABLED", detail, first)


def order_unknown(new: Contents) -> ExecUpdateRejected:
    """The rejection for clusters in graphs whose nodes we cannot pair as the driver would."""
    detail = (
        "the nodes wait for others in another order than before, and some have cluster sizes: "
        "which would keep which size cannot be told"
    )
    place = min(new.clusters, default=None)
    if place is None:
        return ExecUpdateRejected("ORDER_UNKNOWN", detail)
    return _rejected("ORDER_UNKNOWN", detail, new.record(place))


def failed_call(error: DriverError) -> ExecUpdateRejected:
    """The rejection for an update call that failed by another code than 910."""
    return ExecUpdateRejected("CALL_FAILED", str(error))


def _rejected(
    reason: str, detail: str, at: NodeRecord, changes: tuple[Change, ...] = ()
) -> ExecUpdateRejected:
    return ExecUpdateRejected(
        reason,
        detail,
        node=at.index,
        name=at.name,
        where=at.where,
        stage=at.stage,
        changes=changes,
    )


def _other_count(said: str, reason: str, old: Contents, new: Contents) -> ExecUpdateRejected:
    """Nodes were added or left out: those between what begins alike and what ends alike."""
    before = [old.name(index) for index in range(len(old.nodes))]
    now = [new.name(index) for index in range(len(new.nodes))]
    most = min(len(before), len(now))
    begin = next((n for n in range(most) if before[n] != now[n]), most)
    rest = most - begin
    end = next((n for n in range(rest) if before[-1 - n] != now[-1 - n]), rest)
    gone = range(begin, len(before) - end)
    come = range(begin, len(now) - end)
    parts = [f"{said}: {counted(len(before), 'node')} became {len(now)}"]
    if come:
        parts.append(f"new: {_named(new, come)}")
    if gone:
        parts.append(f"gone: {_named(old, gone)}")
    source, first = (new, come) if come else (old, gone)
    named = source.record(first[0])
    return ExecUpdateRejected(
        reason,
        "; ".join(parts),
        node=named.index if come else None,
        name=named.name,
        where=named.where,
        stage=named.stage,
        changes=(("nodes", f"{len(before)}", f"{len(now)}"),),
    )


def _named(contents: Contents, places: range) -> str:
    named = ", ".join(str(contents.record(place)) for place in places[:_NAMED])
    more = len(places) - _NAMED
    return named if more <= 0 else f"{named} and {more} more"


def _first_difference(old: Contents, new: Contents) -> int | None:
    """The first node whose type or edges differ; counts are equal."""
    for place, (kind, waits) in enumerate(zip(new.kinds, new.waits, strict=True)):
        if kind != old.kinds[place] or waits != old.waits[place]:
            return place
    return None


def _differences(old: Contents, new: Contents, place: int) -> tuple[Change, ...]:
    before, now = old.record(place), new.record(place)
    changes: list[Change] = []
    if before.kind != now.kind:
        changes.append(("type", before.kind, now.kind))
    if old.waits[place] != new.waits[place]:
        changes.append(("waits for", _nodes(old.waits[place]), _nodes(new.waits[place])))
    if before.kind == now.kind:
        then, held = before.holds(), now.holds()
        for name in then | held:
            pair = then.get(name, "nothing"), held.get(name, "nothing")
            if pair[0] != pair[1]:
                changes.append((name, *pair))
    return tuple(changes)


def _nodes(places: tuple[int, ...]) -> str:
    return "nodes " + ", ".join(map(str, sorted(places))) if places else "no node"
