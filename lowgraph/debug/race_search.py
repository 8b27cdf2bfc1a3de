"""Nodes of one graph that may touch the same bytes at the same time, one of them writing.

A kernel says of a pointer whether it only reads there (`const`), but not how far it goes: it is
taken to reach from its address to the end of the slice, or to be in the parts of it that the launch
was given. Copies and fills of one row are exact.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lowgraph.debug.form import Argument, Form, Node
from lowgraph.debug.order import after_of, before
from lowgraph.debug.text import printable

__all__ = ["MOST_NODES", "Race", "races"]

MOST_NODES = 20_000
"""Nodes of a body that is looked at: what runs before a node is a set of bits for each of them."""

_MOST_RACES = 1000


@dataclass(frozen=True)
class Race:
    """Two nodes with no path between them that touch the same memory.

    first, second: indices. memory: name, "" where none is known. writer: what is known to write,
    one or both of them. certain: False where one is a kernel whose writing is not known.
    """

    first: int
    second: int
    memory: str
    address: int
    writers: tuple[int, ...]
    certain: bool
    text: str

    def __str__(self) -> str:
        """One line, fit for a terminal."""
        return printable(self.text)


@dataclass(frozen=True)
class _Access:
    node: int
    argument: Argument
    begin: int
    end: int
    writes: bool | None


def races(form: Form) -> tuple[list[Race], list[str]]:
    """All pairs, at most a thousand; and what was not looked at, as text.

    What a child graph touches, its node touches. A conditional's body whose node is not known is
    looked at by itself.
    """
    found: list[Race] = []
    left_out: list[str] = []
    inside = form.inside()
    touched = _touched(form, inside)
    for number, (body, nodes) in enumerate(zip(form.bodies, inside, strict=True)):
        if number and body.parent is None:
            left_out.append(f"{body.label}: not compared with the nodes outside of it")
        if len(nodes) > MOST_NODES:
            left_out.append(f"{body.label}: {len(nodes)} nodes, more than {MOST_NODES}")
            continue
        for race in _in_body(form, nodes, touched):
            if len(found) == _MOST_RACES:
                return found, [*left_out, f"races beyond the first {_MOST_RACES}"]
            found.append(race)
    return found, left_out


def _touched(form: Form, inside: list[list[Node]]) -> dict[int, list[_Access]]:
    """Accesses by node; of a node with bodies also theirs."""
    found: dict[int, list[_Access]] = defaultdict(list)
    for node in form.nodes:
        if node.enabled:
            found[node.index] = list(_accesses(form, node))
    for number in reversed(range(len(form.bodies))):  # a parent stands in a body before
        parent = form.bodies[number].parent
        if parent is not None:
            for node in inside[number]:
                found[parent] += found[node.index]
    return found


def _accesses(form: Form, node: Node) -> Iterator[_Access]:
    for argument in node.arguments:
        known = argument.memory is not None
        if not argument.word or argument.pointer is False or not (known or argument.pointer):
            continue
        begin, end = argument.word, argument.word + 1
        if argument.memory is not None:
            memory = form.memory[argument.memory]
            end = max(end, memory.address + memory.nbytes)
        exact = _bytes_of(node)
        end = end if exact is None else begin + exact
        writes = None if argument.pointer is None else not argument.const
        for offset, nbytes in argument.reach or ((0, end - begin),):
            if nbytes > 0:
                first = begin + offset
                yield _Access(node.index, argument, first, first + nbytes, writes)


def _bytes_of(node: Node) -> int | None:
    """How far a copy or a fill goes, if it is of one row."""
    held = node.attributes
    if node.kind not in ("memset", "memcpy") or held["height"] != 1 or held.get("depth", 1) != 1:
        return None
    return int(str(held["width"])) * int(str(held.get("element", 1)))


def _in_body(
    form: Form, nodes: Sequence[Node], touched: dict[int, list[_Access]]
) -> Iterator[Race]:
    place = {node.index: at for at, node in enumerate(nodes)}
    earlier, later = before(nodes), after_of(nodes)
    for group in _groups([one for node in nodes for one in _seen(touched, node)]):
        at = [place[node] for node, _ in group]
        everyone = writers = 0
        told: set[tuple[int, int]] = set()
        for (_, one), where in zip(group, at, strict=True):
            everyone |= 1 << where
            writers |= (one.writes is not False) << where
        for (node, one), where in zip(group, at, strict=True):
            unordered = ~(earlier[where] | later[where] | (1 << where))
            rivals = (everyone if one.writes is not False else writers) & unordered
            if not rivals:
                continue
            for (other, two), there in zip(group, at, strict=True):
                pair = where, there
                if there > where and rivals >> there & 1 and pair not in told and _clash(one, two):
                    told.add(pair)
                    yield _race(form, (node, one), (other, two))


def _seen(touched: dict[int, list[_Access]], node: Node) -> Iterator[tuple[int, _Access]]:
    """What a node touches, as its own."""
    return ((node.index, one) for one in touched.get(node.index, ()))


def _groups(accesses: list[tuple[int, _Access]]) -> list[list[tuple[int, _Access]]]:
    """Accesses whose ranges hang together; two of different groups share no byte."""
    ordered = sorted(accesses, key=lambda one: one[1].begin)
    starts: list[int] = []
    reach = -1
    for _, one in ordered:
        if one.begin >= reach:
            starts.append(one.begin)
        reach = max(reach, one.end)
    groups: list[list[tuple[int, _Access]]] = [[] for _ in starts]
    for each in ordered:
        groups[bisect_right(starts, each[1].begin) - 1].append(each)
    return [group for group in groups if any(one.writes is not False for _, one in group)]


def _clash(one: _Access, two: _Access) -> bool:
    overlap = one.begin < two.end and two.begin < one.end
    return overlap and (one.writes is not False or two.writes is not False)


def _race(form: Form, one: tuple[int, _Access], two: tuple[int, _Access]) -> Race:
    sides = (one, two)
    certain = any(access.writes is True for _, access in sides)
    meet = max(access.begin for _, access in sides)
    writers = tuple(node for node, access in sides if access.writes)
    told = " and ".join(_side(form, node, access) for node, access in sides)
    place = max((access for _, access in sides), key=lambda access: access.begin).argument.memory
    name = "" if place is None else form.memory[place].name
    perhaps = "" if certain else "perhaps "
    text = f"{perhaps}a race on {name or hex(meet)!r}: {told}; no path leads from one to the other"
    return Race(one[0], two[0], name, meet, writers, certain, text)


def _side(form: Form, node: int, access: _Access) -> str:
    verb = {True: "writes", False: "reads", None: "uses"}[access.writes]
    place = form.place(access.argument) or f"{access.begin:#x}"
    return f"{form.nodes[node].title} {verb} {access.argument.name} = {place}"
