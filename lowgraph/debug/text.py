"""A form for people. Names come from files: nothing of them reaches a terminal unescaped."""

from __future__ import annotations

from collections.abc import Iterator

from lowgraph.debug.form import Argument, Form, Node
from lowgraph.memory import counted, readable

__all__ = ["lines", "node_text", "printable"]


def printable(text: str) -> str:
    """The text without a character that a terminal would act on, or that shows as nothing.

    Such are written as Python escapes; a backslash is doubled, so that the escape can be told.
    """
    return "".join(
        one if one.isprintable() and one != "\\" else one.encode("unicode_escape", "surrogatepass")
        .decode("ascii") for one in text
    )  # fmt: skip


def lines(form: Form) -> Iterator[str]:
    """The whole form, a node a line."""
    kinds: dict[str, int] = {}
    for node in form.nodes:
        kinds[node.kind] = kinds.get(node.kind, 0) + 1
    split = ", ".join(f"{count} {printable(kind)}" for kind, count in kinds.items())
    yield (
        f"graph {printable(form.label)!r} on {printable(form.device)}: "
        f"{counted(len(form.nodes), 'node')}{split and f' ({split})'}, "
        f"{counted(len(form.edges), 'edge')}"
    )
    for one in form.memory:
        ended = "" if one.alive else f", given back{f' at {one.where}' if one.where else ''}"
        owner = f" of {one.owner!r}" if one.owner else ""
        told = f"{one.role}{owner} {one.name!r} {readable(one.nbytes)} at {one.address:#x}{ended}"
        yield f"memory: {printable(told)}"
    inside = form.inside()
    for number, body in enumerate(form.bodies):
        if number:
            yield f"{printable(body.label)}:"
        for node in inside[number]:
            yield f"  {node_text(form, node)}"
    for note in form.notes:
        yield f"note: {printable(note)}"


def node_text(form: Form, node: Node) -> str:
    """One node in one line: what it is, what it holds and what it waits for."""
    held = [f"{name} {_attribute(value)}" for name, value in node.attributes.items()
            if value not in ("", False, (0, 0, 0)) and name != "source_hash"]  # fmt: skip
    given = ", ".join(f"{one.name}={_argument(form, one)}" for one in node.arguments)
    waits = f"waits for {', '.join(map(str, node.waits))}" if node.waits else "waits for nothing"
    parts = ("" if node.enabled else "DISABLED", ", ".join(held), given and f"({given})", waits)
    return printable(f"{node.title}: {'; '.join(filter(None, parts))}")


def _attribute(value: object) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _argument(form: Form, one: Argument) -> str:
    place = form.place(one)
    if not place:
        return one.text()
    access = {True: "reads ", False: "", None: "perhaps "}[one.const if one.pointer else None]
    return f"{access}{place}"
