"""Stale: one pointer of a graph that must not be followed, and everything there is to say of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from lowgraph.debug.form import Form, Memory
from lowgraph.debug.text import printable

__all__ = [
    "FREED",
    "GIVEN_BACK",
    "GONE",
    "OUTSIDE",
    "RELEASED",
    "Behind",
    "Stale",
    "behind_pins",
    "stale_pointers",
]

GIVEN_BACK = "given back, its bytes are kept by a graph"
GONE = "given back, its bytes may be somebody else's"
RELEASED = "a foreign buffer that is registered no more"
FREED = "a foreign buffer that was freed"
OUTSIDE = "in no slice, no staging slot and no registered buffer"


@dataclass(frozen=True)
class Stale:
    """One finding. kind: one of this module's words. now: what the address is now, if asked.

    memory: what it was recorded with, None for OUTSIDE. since: file:line that gave it back, "" if
    that is not known. behind: the pin that fills this memory from the one that was freed, "" where
    the pointer leads there itself.
    """

    node: int
    title: str
    kernel: str
    argument: str
    address: int
    kind: str
    memory: Memory | None
    since: str
    now: str = ""
    behind: str = ""

    def __str__(self) -> str:
        """One line, fit for a terminal."""
        # Where the source is not known, an argument is called "argument 1".
        name = f"argument {self.argument.removeprefix('argument ')}"
        told = f"{self.title}: {name} = {self.address:#x} is {self.kind}"
        one = self.memory
        if one is not None:
            owner = f", of {one.owner!r}" if one.owner else ""
            at = f"{self.title}: {name} = {self.address:#x}"
            memory = f"{one.name!r} (generation {one.generation}{owner}), {self.kind}"
            told = f"{at} was byte {self.address - one.address} of {memory}"
            if self.behind:
                told = f"{at} is given {self.behind}, which reads {memory}"
        since = f"; since {self.since}" if self.since else ""
        now = f"; now it is {self.now}" if self.now else ""
        return printable(told + since + now)


def stale_pointers(form: Form, bad: dict[int, tuple[str, str]]) -> list[Stale]:
    """Pointers of nodes that are switched on, into memory that is bad, or into none that is known.

    bad: place in Form.memory -> its kind, and since when.
    """
    found = []
    for node in form.nodes:
        for argument in node.arguments if node.enabled else ():
            if argument.memory is not None and argument.memory in bad:
                kind, since = bad[argument.memory]
                memory = form.memory[argument.memory]
            elif argument.memory is None and argument.pointer and argument.word:
                kind, since, memory = OUTSIDE, "", None
            else:
                continue
            found.append(Stale(node.index, node.title, node.name, argument.name, argument.word,
                               kind, memory, since))  # fmt: skip
    return found


class Behind(NamedTuple):
    """A pin whose memory was freed, and the addresses through which the graph's nodes read it."""

    begin: int
    end: int
    pin: str
    memory: Memory
    since: str


def behind_pins(form: Form, freed: Sequence[Behind]) -> list[Stale]:
    """Pointers that are good themselves, into what a pin fills from memory that was freed."""
    found = []
    for node in form.nodes:
        for argument in node.arguments if node.enabled else ():
            for one in freed:
                if argument.memory is not None and one.begin <= argument.word < one.end:
                    told = Stale(node.index, node.title, node.name, argument.name, argument.word,
                                 FREED, one.memory, one.since)  # fmt: skip
                    found.append(replace(told, behind=one.pin))
    return found
