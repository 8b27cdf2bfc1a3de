"""What differs between two nodes that are twins, and what the driver makes of it in an update.

What may change is measured (tests/traces): a kernel's function, arguments, grid, block and shared
bytes may; whether it is cooperative may not; its cluster size is kept as it was without a word.
Copies and fills of one row may change in anything but a copy's direction, of several rows in their
addresses only. What kinds of nodes beside those named here would do is not told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import zip_longest

from lowgraph.debug.form import Argument, Form, Node

__all__ = ["Change", "Verdict", "changes", "judge"]


class Verdict(IntEnum):
    """What an update to the other graph does; of a whole graph the highest of its nodes."""

    UPDATABLE = 0
    WRONG = 1
    UNKNOWN = 2
    REINSTANTIATE = 3

    @property
    def text(self) -> str:
        """For people."""
        return _TEXTS[self]


_TEXTS = {
    Verdict.UPDATABLE: "updatable",
    Verdict.WRONG: "driver accepts, result wrong",
    Verdict.UNKNOWN: "not known",
    Verdict.REINSTANTIATE: "must re-instantiate",
}

_ANYTHING = frozenset(
    {"kernel", "memset", "memcpy", "empty", "host", "event_record", "wait_event", "graph",
     "mem_alloc", "mem_free"}
)  # fmt: skip
_SHAPE = {
    "memset": ("element", "width", "height", "pitch"),
    "memcpy": ("width", "height", "depth", "to_pitch", "source_pitch"),
}
_SIZES = ("grid", "block", "shared")


@dataclass(frozen=True)
class Change:
    """One difference. old, new: as text. name: of the argument or attribute.

    what: "added", "removed", "type", "rewired", "kernel", "pointer", "address" (the same slice and
    offset elsewhere), "scalar", "raw" bytes, "argument" (of another kernel), "size" (grid, block,
    shared), "attribute", "enabled".
    """

    what: str
    name: str
    old: str
    new: str

    def __str__(self) -> str:
        name = f" {self.name}" if self.name else ""
        return f"{self.what}{name}: {self.old} -> {self.new}"


def changes(forms: tuple[Form, Form], old: Node, new: Node) -> list[Change]:
    """All differences of two nodes but their edges; source lines and stages are none."""
    if old.kind != new.kind:
        return [Change("type", "", old.kind, new.kind)]
    found = []
    if old.name != new.name:
        found.append(Change("kernel", "", old.name, new.name))
    if old.enabled != new.enabled:
        found.append(Change("enabled", "", str(old.enabled), str(new.enabled)))
    for name, before in old.attributes.items():
        now = new.attributes[name]
        if before != now:
            what = "size" if name in _SIZES else "attribute"
            found.append(Change(what, name, str(before), str(now)))
    return [*found, *_of_arguments(forms, old, new)]


def judge(old: Node, new: Node) -> tuple[Verdict, str]:
    """What an update makes of twins, and the driver's reason for a refusal."""
    if old.kind != new.kind:
        return Verdict.REINSTANTIATE, "NODE_TYPE_CHANGED"
    then, now = old.attributes, new.attributes
    if then.get("cooperative") != now.get("cooperative"):
        return Verdict.REINSTANTIATE, "ATTRIBUTES_CHANGED"
    if then.get("direction") != now.get("direction"):
        return Verdict.REINSTANTIATE, "PARAMETERS_CHANGED"
    shape = _SHAPE.get(old.kind, ())
    rows = any(held.get("height", 1) != 1 or held.get("depth", 1) != 1 for held in (then, now))
    if rows and any(then.get(name) != now.get(name) for name in shape):
        return Verdict.REINSTANTIATE, "PARAMETERS_CHANGED"
    if then.get("cluster") != now.get("cluster"):
        return Verdict.WRONG, "CLUSTER_CHANGED"
    if old.kind not in _ANYTHING:
        return Verdict.UNKNOWN, f"a node of type {old.kind}"
    if then.get("nbytes") != now.get("nbytes"):
        return Verdict.UNKNOWN, "an allocation of another size"
    if not (old.enabled and new.enabled):
        return Verdict.UNKNOWN, "NODE_DISABLED"
    return Verdict.UPDATABLE, ""


def _of_arguments(forms: tuple[Form, Form], old: Node, new: Node) -> Iterator[Change]:
    if old.name == new.name and [a.name for a in old.arguments] == [a.name for a in new.arguments]:
        for before, now in zip(old.arguments, new.arguments, strict=True):
            if before.data != now.data:
                yield _changed(forms, before, now)
        return
    for one, other in zip_longest(old.arguments, new.arguments):  # of another signature
        told = [f"{a.name} = {_shown(form, a)}" if a else "nothing"
                for form, a in zip(forms, (one, other), strict=True)]  # fmt: skip
        if told[0] != told[1]:
            yield Change("argument", "", *told)


def _changed(forms: tuple[Form, Form], before: Argument, now: Argument) -> Change:
    places = tuple(form.place(one) for form, one in zip(forms, (before, now), strict=True))
    if before.value is not None and now.value is not None:
        what = "scalar"
    elif places[0] and places[0] == places[1]:
        what = "address"
    else:
        what = "pointer" if before.pointer or any(places) else "raw"
    return Change(what, before.name, _shown(forms[0], before), _shown(forms[1], now))


def _shown(form: Form, one: Argument) -> str:
    place = form.place(one)
    return f"{place} at {one.word:#x}" if place else one.text()
