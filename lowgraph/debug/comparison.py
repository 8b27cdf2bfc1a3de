"""Two graphs compared, and what cuGraphExecUpdate would make of it, node by node and in all.

Where the topologies are the same for the driver, its own pairing says which node is compared with
which. Where they are not, nodes are set side by side by their kind, name and stage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Any

from lowgraph.debug.changes import Change, Verdict, changes, judge
from lowgraph.debug.form import Form, Node
from lowgraph.debug.pairing import pair
from lowgraph.debug.text import printable
from lowgraph.memory import counted

__all__ = ["Diff", "NodeDiff", "diff"]

_TOPOLOGY = "TOPOLOGY_CHANGED"
_MOST_ALIGNED = (
    20_000  # nodes of a body that are set side by side by name: it is quadratic at worst
)


@dataclass(frozen=True)
class NodeDiff:
    """One node that differs. old, new: its indices, None where it is not there.

    reason: the driver's, or why the verdict is not "updatable".
    """

    old: int | None
    new: int | None
    title: str
    verdict: Verdict
    reason: str
    changes: tuple[Change, ...]

    def __str__(self) -> str:
        """One line, fit for a terminal."""
        what = f"{self.verdict.text} ({self.reason})" if self.reason else self.verdict.text
        return printable(f"{self.title}: {what}: {'; '.join(map(str, self.changes))}")


@dataclass(frozen=True)
class Diff:
    """verdict, reason: of the whole; at: index of the new node that the driver would name.

    nodes: that differ. same: how many do not. twins: new index -> old index of all nodes that were
    compared with each other.
    """

    verdict: Verdict
    reason: str
    at: int | None
    nodes: tuple[NodeDiff, ...]
    same: int
    twins: Mapping[int, int]

    def counts(self) -> dict[str, int]:
        """How many changes there are of each kind."""
        return dict(Counter(change.what for node in self.nodes for change in node.changes))

    def lines(self) -> Iterator[str]:
        """For people. Addresses that moved with their slices are a number only."""
        why = f" ({printable(self.reason)})" if self.reason else ""
        told = ", ".join(f"{count} {what}" for what, count in self.counts().items())
        yield f"an update would be: {self.verdict.text}{why}"
        yield f"{counted(self.same, 'node')} the same, {len(self.nodes)} not: {told or 'no change'}"
        for node in self.nodes:
            if node.reason or any(change.what != "address" for change in node.changes):
                yield str(node)

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        nodes = [{**asdict(one), "verdict": one.verdict.text} for one in self.nodes]
        return {
            "verdict": self.verdict.text,
            "reason": self.reason,
            "at": self.at,
            "same": self.same,
            "counts": self.counts(),
            "nodes": nodes,
        }


def diff(old: Form, new: Form) -> Diff:
    """Compare what an executable was made of with what it is to be updated to. No device."""
    found = _Comparison(old, new)
    found.compare(0, 0)
    left = [n for n in range(1, len(new.bodies)) if n not in found.seen]
    if left and not found.failed:
        label = new.bodies[left[0]].label
        found.whole(Verdict.UNKNOWN, f"{label}: which node it runs in is not known")
    return found.result()


class _Comparison:
    def __init__(self, old: Form, new: Form) -> None:
        self.forms = old, new
        self._inside = old.inside(), new.inside()
        self._bodies = _by_parent(old), _by_parent(new)
        self.seen: set[int] = set()
        self.failed = False
        self._verdict, self._reason = Verdict.UPDATABLE, ""
        self._at: int | None = None
        self._nodes: list[NodeDiff] = []
        self._same = 0
        self._twins: dict[int, int] = {}

    def result(self) -> Diff:
        nodes = sorted(self._nodes, key=lambda one: (one.new is None, one.new or 0, one.old or 0))
        parts = tuple(nodes), self._same, self._twins
        return Diff(self._verdict, self._reason, self._at, *parts)

    def whole(self, verdict: Verdict, reason: str, at: int | None = None) -> None:
        """A cause; the first of the highest verdict stands."""
        if verdict > self._verdict:
            self._verdict, self._reason, self._at = verdict, reason, at

    def compare(self, old_body: int, new_body: int) -> None:
        """Compare two bodies, and those in their nodes."""
        self.seen.add(new_body)
        old, new = self._inside[0][old_body], self._inside[1][new_body]
        pairing = pair(old, new)
        if pairing.failed:
            self.failed = True
            self.whole(Verdict.REINSTANTIATE, _TOPOLOGY, pairing.at)
            self._align(old, new)
            return
        # The driver looks at the newest node first, and tells of that where several differ.
        for node in reversed(new):
            twin = self.forms[0].nodes[pairing.twins[node.index]]
            verdict, reason = judge(twin, node)
            self.whole(verdict, reason, node.index)
            told = changes(self.forms, twin, node)
            self._note(twin, node, verdict, reason, told)
            self._children(twin, node)

    def _children(self, old: Node, new: Node) -> None:
        ours, theirs = self._bodies[0].get(old.index, []), self._bodies[1].get(new.index, [])
        for old_body, new_body in zip(ours, theirs, strict=False):
            self.compare(old_body, new_body)

    def _note(
        self, old: Node, new: Node, verdict: Verdict, reason: str, told: Sequence[Change]
    ) -> None:
        self._twins[new.index] = old.index
        if not told and verdict is Verdict.UPDATABLE:
            self._same += 1
            return
        self._nodes.append(NodeDiff(old.index, new.index, new.title, verdict, reason, tuple(told)))

    def _align(self, old: list[Node], new: list[Node]) -> None:
        """Nodes of two topologies side by side: what is new, gone or waits for others."""
        twins = _side_by_side(old, new)
        back = {ours: theirs for theirs, ours in twins.items()}
        for node in new:
            if node.index not in twins:
                added = Change("added", "", "nothing", node.name)
                self._failed(None, node, [added])
        for node in old:
            if node.index not in back:
                removed = Change("removed", "", node.name, "nothing")
                self._failed(node, None, [removed])
                continue
            twin = self.forms[1].nodes[back[node.index]]
            told = changes(self.forms, node, twin)
            if [back.get(start) for start in node.waits] != list(twin.waits):
                edges = Change("rewired", "", _nodes(node.waits), _nodes(twin.waits))
                self._failed(node, twin, [edges, *told])
            else:
                verdict, reason = judge(node, twin)
                self._note(node, twin, verdict, reason, told)

    def _failed(self, old: Node | None, new: Node | None, told: list[Change]) -> None:
        node = new or old
        assert node is not None, "one of both is there"
        if old is not None and new is not None:
            self._twins[new.index] = old.index
        places = (None if old is None else old.index), (None if new is None else new.index)
        verdict = Verdict.REINSTANTIATE
        self._nodes.append(NodeDiff(*places, node.title, verdict, _TOPOLOGY, tuple(told)))


def _by_parent(form: Form) -> dict[int, list[int]]:
    """The bodies in each node that has any."""
    found: dict[int, list[int]] = {}
    for place, body in enumerate(form.bodies):
        if body.parent is not None:
            found.setdefault(body.parent, []).append(place)
    return found


def _side_by_side(old: list[Node], new: list[Node]) -> dict[int, int]:
    """New index -> old index of nodes that have the same kind, name and stage, in order."""
    if max(len(old), len(new)) > _MOST_ALIGNED:
        return {}
    ours, theirs = ([(n.kind, n.name, n.stage) for n in nodes] for nodes in (old, new))
    found = {}
    for start, there, count in SequenceMatcher(None, ours, theirs, False).get_matching_blocks():
        for step in range(count):
            found[new[there + step].index] = old[start + step].index
    return found


def _nodes(places: tuple[int, ...]) -> str:
    return f"waits for {', '.join(map(str, places))}" if places else "waits for no node"
