"""What an audit saw: stale pointers, races, by-value arguments; of a live graph or of a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from lowgraph.debug.form import Argument, Form, Node
from lowgraph.debug.race_search import Race, races
from lowgraph.debug.stale import FREED, GIVEN_BACK, Stale, stale_pointers
from lowgraph.debug.text import printable
from lowgraph.memory import counted

__all__ = ["AuditReport", "report_of", "summary"]


@dataclass(frozen=True)
class AuditReport:
    """What an audit saw. pointers: looked at. unknown: arguments that may be addresses or not.

    scalars: by-value arguments with their node. left_out: what was not looked at, as text.
    """

    label: str
    pointers: int
    unknown: int
    stale: tuple[Stale, ...]
    races: tuple[Race, ...]
    scalars: tuple[tuple[Node, Argument], ...]
    left_out: tuple[str, ...]

    @property
    def findings(self) -> tuple[str, ...]:
        """Stale pointers and certain races, as text."""
        return (*map(str, self.stale), *(str(race) for race in self.races if race.certain))

    def as_dict(self) -> dict[str, Any]:
        """The figures and findings, ready for JSON."""
        return {
            "label": self.label,
            "pointers": self.pointers,
            "unknown": self.unknown,
            "stale": [asdict(one) for one in self.stale],
            "races": [asdict(one) for one in self.races],
            "left_out": list(self.left_out),
            "scalars": [
                {"node": node.index, "kernel": node.name, "argument": one.name, "type": one.type,
                 "value": one.text()}
                for node, one in self.scalars
            ],
        }  # fmt: skip

    def lines(self) -> Iterator[str]:
        """The report for people, scalars last."""
        yield (
            f"audit of {printable(self.label)!r}: {counted(self.pointers, 'pointer')}, "
            f"{len(self.stale)} stale, {counted(self.unknown, 'argument')} not known to be "
            f"addresses or not; {counted(len(self.races), 'race')}"
        )
        yield from (f"stale: {one}" for one in self.stale)
        yield from (f"race: {one}" for one in self.races)
        yield from (f"not looked at: {printable(one)}" for one in self.left_out)
        for node, argument in self.scalars:
            told = f"{node.title}: {argument.type} {argument.name} = {argument.text()}"
            yield f"scalar: {printable(told)}"


def report_of(form: Form) -> AuditReport:
    """The audit of a form without its device: as its memory was when it was read."""
    bad = {
        place: (FREED if memory.role == "foreign" else GIVEN_BACK, memory.where)
        for place, memory in enumerate(form.memory)
        if not memory.alive
    }
    stale = tuple(stale_pointers(form, bad))
    return summary(form, stale, races(form))


def summary(
    form: Form, stale: tuple[Stale, ...], seen: tuple[list[Race], list[str]]
) -> AuditReport:
    """The report of a form whose stale pointers and races are known. seen: as `races` gives it."""
    arguments = [(node, one) for node in form.nodes for one in node.arguments]
    scalars = tuple(each for each in arguments if each[1].value is not None)
    pointers = sum(1 for _, one in arguments if one.pointer or one.memory is not None)
    unknown = sum(
        1 for _, one in arguments
        if one.pointer is None and one.memory is None and len(one.data) >= 8
    )  # fmt: skip
    left_out = (*seen[1], *form.notes)
    return AuditReport(form.label, pointers, unknown, stale, tuple(seen[0]), scalars, left_out)
