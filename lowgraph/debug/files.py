"""A form as JSON, and back. A file is somebody else's word: everything in it is checked first.

    {"format": "lowgraph graph", "version": 1, "label", "device", "origin", "notes": [...],
     "memory": [{"name", "address", "nbytes", "id", "generation", "role", "owner", "alive",
                 "where"}, ...],
     "bodies": [{"label", "parent"}, ...],
     "nodes": [{"index", "body", "kind", "name", "where", "stage", "stream", "enabled",
                "attributes": {...},
                "arguments": [{"name", "type", "code", "pointer", "const", "data", "memory",
                               "offset", "reach", "value"}, ...]}, ...],
     "edges": [[from, to], ...]}

`data` is an argument's bytes in hexadecimal, in their order in memory. `value` is for people: it is
made from `data`, and not read back. `stream` and `reach` are absent where they are not known. Edges
into one node stand in the driver's order.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

from lowgraph.debug.checks import (
    Bad,
    Check,
    attributes,
    flag,
    hexadecimal,
    number,
    objects,
    one_of,
    optional,
    pairs,
    record,
    text,
    texts,
)
from lowgraph.debug.form import CODES, ROLES, Argument, Body, Form, Memory, Node
from lowgraph.debug.order import topological
from lowgraph.errors import ConfigError

__all__ = ["MAX_BYTES", "as_dict", "from_dict", "load"]

MAX_BYTES = 64 << 20
"""Size of a file that is read: some twenty thousand kernel nodes."""

_DEEPEST = 50  # child graphs in child graphs; more than anybody nests
_FORMAT, _VERSION = "lowgraph graph", 1

_MEMORY: dict[str, Check] = {
    "name": text, "address": number, "nbytes": number, "id": number, "generation": number,
    "role": one_of(ROLES), "owner": text, "alive": flag, "where": text,
}  # fmt: skip
_BODY: dict[str, Check] = {"label": text, "parent": optional(number)}
_ARGUMENT: dict[str, Check] = {
    "name": text, "type": text, "code": one_of(("", *sorted(CODES))), "pointer": optional(flag),
    "const": optional(flag), "data": hexadecimal, "memory": optional(number),
    "offset": optional(number), "value": lambda value: None,
}  # fmt: skip
_OF_SLICES: dict[str, Check] = {"reach": pairs}
_NODE: dict[str, Check] = {
    "index": number, "body": number, "kind": text, "name": text, "where": text, "stage": text,
    "enabled": flag, "attributes": attributes, "arguments": objects(_ARGUMENT, _OF_SLICES),
}  # fmt: skip
_OF_OURS: dict[str, Check] = {"stream": number}
_FORM: dict[str, Check] = {
    "format": one_of((_FORMAT,)), "version": number, "label": text, "device": text, "origin": text,
    "notes": texts, "memory": objects(_MEMORY), "bodies": objects(_BODY),
    "nodes": objects(_NODE, _OF_OURS), "edges": pairs,
}  # fmt: skip


def as_dict(form: Form) -> dict[str, Any]:
    """The form, ready for JSON; see the module."""
    head = {"format": _FORMAT, "version": _VERSION, "label": form.label, "device": form.device}
    return {
        **head,
        "origin": form.origin,
        "notes": list(form.notes),
        "memory": [vars_of(one) for one in form.memory],
        "bodies": [vars_of(one) for one in form.bodies],
        "nodes": [_node(one) for one in form.nodes],
        "edges": [list(edge) for edge in form.edges],
    }


def load(path: Path) -> Form:
    """Read a file that was written from `as_dict`.

    Raises ConfigError, one line that names the file and what is wrong, whatever is in it.
    """
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise Bad(f"it has {size} bytes, and a graph's file at most {MAX_BYTES}")
        with path.open("rb") as file:  # a pipe tells no size
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise Bad(f"it has more than {MAX_BYTES} bytes")
        return from_dict(_parsed(content))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    except Bad as error:
        raise ConfigError(f"{path} is no graph of lowgraph's: {error}") from None


def from_dict(given: object) -> Form:
    """The form of what `as_dict` made. Raises Bad, a ValueError, naming the place."""
    if isinstance(given, dict) and given.get("version", _VERSION) != _VERSION:
        raise Bad(f"version: this lowgraph reads {_VERSION}")
    top = record(given, _FORM, "the file")
    memory = tuple(Memory(**one) for one in top["memory"])
    bodies = tuple(Body(**one) for one in top["bodies"])
    waits = _waits(top["edges"], top["nodes"])
    nodes = tuple(_read_node(place, one, waits[place], memory)
                  for place, one in enumerate(top["nodes"]))  # fmt: skip
    _check_bodies(bodies, nodes)
    form = Form(top["label"], top["device"], top["origin"], memory, nodes, bodies,
                tuple(top["notes"]))  # fmt: skip
    topological(form.nodes)
    return form


def vars_of(one: Memory | Body | Argument | Node) -> dict[str, Any]:
    """Fields of a dataclass by name."""
    return {field.name: getattr(one, field.name) for field in fields(one)}


def _node(node: Node) -> dict[str, Any]:
    told = vars_of(node)
    del told["waits"]
    if node.stream is None:
        del told["stream"]
    told["attributes"] = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in node.attributes.items()
    }
    told["arguments"] = [_argument(one) for one in node.arguments]
    return told


def _argument(one: Argument) -> dict[str, Any]:
    told = {**vars_of(one), "data": one.data.hex(), "value": one.text()}
    if one.reach is None:
        del told["reach"]
    return told


def _parsed(content: bytes) -> object:
    try:
        return json.loads(content, parse_constant=_no_constant, parse_float=_no_float,
                          object_pairs_hook=_once)  # fmt: skip
    except RecursionError:
        raise Bad("it is nested too deeply") from None
    except Bad:
        raise
    except ValueError as error:
        raise Bad(f"it is no JSON ({str(error)[:80]})") from None


def _no_constant(word: str) -> NoReturn:
    raise Bad(f"{word} is no JSON number")


def _no_float(word: str) -> NoReturn:
    raise Bad(f"a number with a fraction ({word[:20]}) has no place in it")


def _once(found: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(found)
    if len(made) != len(found):
        raise Bad("a name stands twice in one object")
    return made


def _waits(edges: list[tuple[int, int]], nodes: list[Any]) -> list[list[int]]:
    waits: list[list[int]] = [[] for _ in nodes]
    for start, end in edges:
        if not (start < len(nodes) and end < len(nodes)):
            raise Bad(f"edges: {start} to {end}, and there are {len(nodes)} nodes")
        if nodes[start]["body"] != nodes[end]["body"]:
            raise Bad(f"edges: {start} to {end} goes from one body into another")
        waits[end].append(start)
    for place, starts in enumerate(waits):
        if len(set(starts)) != len(starts):
            raise Bad(f"edges: an edge into node {place} stands twice")
    return waits


def _read_node(
    place: int, given: Mapping[str, Any], waits: list[int], memory: tuple[Memory, ...]
) -> Node:
    where = f"nodes[{place}]"
    if given["index"] != place:
        raise Bad(f"{where}: its index is {given['index']}")
    arguments = []
    for at, one in enumerate(given["arguments"]):
        kept = {name: value for name, value in one.items() if name != "value"}
        if "reach" in kept:
            kept["reach"] = tuple((first, nbytes) for first, nbytes in kept["reach"])
        arguments.append(_checked(Argument(**kept), memory, f"{where}.arguments[{at}]"))
    names = [argument.name for argument in arguments]
    if len(set(names)) != len(names):
        raise Bad(f"{where}: two arguments have one name")
    held = attributes.of_kind(given["kind"], given["attributes"], where)
    told = {**given, "attributes": held, "arguments": tuple(arguments), "waits": tuple(waits)}
    return Node(**told)


def _checked(argument: Argument, memory: tuple[Memory, ...], where: str) -> Argument:
    if argument.code and len(argument.data) != struct.calcsize(f"<{argument.code}"):
        raise Bad(f"{where}: {len(argument.data)} bytes are no value of type {argument.code!r}")
    if argument.pointer and argument.code != "Q":
        raise Bad(f"{where}: a pointer has the code 'Q'")
    if (argument.memory is None) != (argument.offset is None):
        raise Bad(f"{where}: memory and offset belong together")
    if argument.memory is not None:
        if argument.memory >= len(memory):
            raise Bad(f"{where}: there is no memory {argument.memory}")
        block = memory[argument.memory]
        offset = argument.offset or 0
        if offset >= block.nbytes or block.address + offset != argument.word:
            raise Bad(f"{where}: its address does not lie at that offset in memory")
    return argument


def _check_bodies(bodies: tuple[Body, ...], nodes: tuple[Node, ...]) -> None:
    if not bodies or bodies[0].parent is not None:
        raise Bad("bodies: the first is the whole graph, which has no parent")
    depth = [0] * len(bodies)
    for place, body in enumerate(bodies):
        if body.parent is None:
            continue
        if body.parent >= len(nodes) or nodes[body.parent].body >= place:
            raise Bad(f"bodies[{place}]: its parent has to be a node of a body before it")
        depth[place] = depth[nodes[body.parent].body] + 1
        if depth[place] > _DEEPEST:
            raise Bad(f"bodies[{place}]: more than {_DEEPEST} graphs inside of each other")
    for node in nodes:
        if node.body >= len(bodies):
            raise Bad(f"nodes[{node.index}]: there is no body {node.body}")
