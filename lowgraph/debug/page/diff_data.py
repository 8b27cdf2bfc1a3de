"""What the page shows of a comparison: the nodes of both graphs as one list, in the new order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lowgraph.debug.changes import Verdict
from lowgraph.debug.comparison import Diff, NodeDiff
from lowgraph.debug.form import Form
from lowgraph.debug.page.lanes import timeline
from lowgraph.debug.text import printable

__all__ = ["diff_data"]

_CLASSES = {
    Verdict.UPDATABLE: "good",
    Verdict.WRONG: "wrong",
    Verdict.UNKNOWN: "unknown",
    Verdict.REINSTANTIATE: "bad",
}


def diff_data(old: Form, new: Form, found: Diff) -> dict[str, Any]:
    """A comparison, ready for JSON. Rows are [old index, new index, status, verdict, changes].

    status: "same", "moved" (addresses only), "changed", "rewired", "added", "removed", or
    "uncompared" of a node in a body that was not looked at.
    """
    told = {(one.old, one.new): one for one in found.nodes}
    rows = [_row(pair, told.get(pair), found) for pair in _pairs(old, new, found)]
    return {
        "verdict": found.verdict.text,
        "class": _CLASSES[found.verdict],
        "reason": printable(found.reason),
        "at": found.at,
        "rows": rows,
    }


Pair = tuple[int | None, int | None]


def _pairs(old: Form, new: Form, found: Diff) -> Iterator[Pair]:
    """The new graph's nodes as they run, each with its twin; a node that is gone where it was."""
    kept = set(found.twins.values())
    left = timeline(old)[::-1]
    passed: set[int] = set()
    for index in timeline(new):
        twin = found.twins.get(index)
        while twin is not None and twin not in passed:
            gone = left.pop()
            passed.add(gone)
            if gone not in kept:
                yield gone, None
        yield twin, index
    yield from ((gone, None) for gone in reversed(left) if gone not in kept)


def _row(pair: Pair, one: NodeDiff | None, found: Diff) -> list[Any]:
    if one is None:
        known = pair[1] is not None and pair[1] in found.twins
        return [*pair, "same" if known else "uncompared", "", []]
    verdict = f"{one.verdict.text} ({one.reason})" if one.reason else one.verdict.text
    told = [[change.what, *map(printable, (change.name, change.old, change.new))]
            for change in one.changes]  # fmt: skip
    return [*pair, _status(one), printable(verdict), told]


def _status(one: NodeDiff) -> str:
    whats = {change.what for change in one.changes}
    for status in ("added", "removed", "rewired"):
        if status in whats:
            return status
    return "moved" if whats == {"address"} else "changed" if whats else "uncompared"
