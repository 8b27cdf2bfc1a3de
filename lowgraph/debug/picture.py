"""A form as a picture in Graphviz's DOT language; every name in it is quoted and escaped."""

from __future__ import annotations

from collections.abc import Iterator

from lowgraph.debug.form import Form, Node
from lowgraph.debug.text import printable

__all__ = ["dot"]

_SHAPES = {"kernel": "box", "memset": "note", "memcpy": "cds"}
_LONGEST = 120  # characters of a label's line: more makes the picture unreadable


def dot(form: Form) -> str:
    """The graph: a box a node, its stage and line below its name, a cluster a body."""
    return "\n".join(_lines(form)) + "\n"


def _lines(form: Form) -> Iterator[str]:
    yield "digraph lowgraph {"
    yield f"  label={_quoted(form.label)};"
    yield "  node [fontname=monospace];"
    inside = form.inside()
    for number, body in enumerate(form.bodies):
        if number:
            yield f"  subgraph cluster_{number} {{ label={_quoted(body.label)};"
        for node in inside[number]:
            yield f"  n{node.index} [{_node(node)}];"
        if number:
            yield "  }"
        first = inside[number][0].index if inside[number] else None
        if body.parent is not None and first is not None:
            yield f"  n{body.parent} -> n{first} [style=dashed];"
    for start, end in form.edges:
        yield f"  n{start} -> n{end};"
    yield "}"


def _node(node: Node) -> str:
    label = _quoted(f"{node.index}: {node.name}", node.stage, node.where)
    style = "" if node.enabled else ", style=dotted"
    return f"shape={_SHAPES.get(node.kind, 'ellipse')}, label={label}{style}"


def _quoted(*rows: str) -> str:
    """A DOT string of those rows, empty ones left out: no quote, escape or line break of theirs."""
    told = (printable(row)[:_LONGEST] for row in rows if row)
    return '"' + "\\n".join(row.replace("\\", "\\\\").replace('"', '\\"') for row in told) + '"'
