"""What the page shows of a graph, as plain data: everything placed, ordered and named.

Every text of the form's is `printable`: no character in it that acts on what stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowgraph.debug.form import Argument, Form, Memory
from lowgraph.debug.page.critical import critical, node_times
from lowgraph.debug.page.lanes import timeline
from lowgraph.debug.page.lifetimes import Life, address_map, in_use, lives
from lowgraph.debug.page.places import picture
from lowgraph.debug.text import printable
from lowgraph.errors import ConfigError
from lowgraph.memory import readable

__all__ = ["LIMITS", "graph_data"]

LIMITS = {"nodes": 20_000, "edges": 100_000, "memory": 20_000, "bodies": 2000, "stages": 2000}
"""What a browser shows at a bearable speed."""

_DEEPEST = 8  # stages in stages that are told apart

_LONGEST_VALUE = 200  # characters of an argument's value; raw bytes may have 65536
_ACCESS = {True: "reads", False: "writes", None: "uses"}
_NO_SIZE = ("", False, (0, 0, 0))  # attributes that say nothing


def graph_data(
    form: Form, own_us: Mapping[str, float] | None = None, narrow: bool = False
) -> dict[str, Any]:
    """The whole form for the page, ready for JSON.

    own_us: as of `node_times`, or None. narrow: as of `picture`. Raises ConfigError for a graph
    beyond LIMITS, and for times of other stages.
    """
    _check(form)
    order = timeline(form)
    times = None if own_us is None else node_times(form, own_us)
    placed, path = picture(form, narrow), critical(form, times)
    found = lives(form, order)
    kinds: dict[str, int] = {}
    for node in form.nodes:
        kinds[node.kind] = kinds.get(node.kind, 0) + 1
    return {
        "label": printable(form.label),
        "device": printable(form.device),
        "origin": printable(form.origin),
        "notes": [printable(note) for note in form.notes],
        "kinds": [[printable(kind), count] for kind, count in kinds.items()],
        "edges": len(form.edges),
        "row": placed.row,
        "size": [placed.width, placed.height],
        "sections": [[one.body, one.y, one.height] for one in placed.sections],
        "groups": [[one.x, one.y, one.width, one.height, printable(one.stage)]
                   for one in placed.groups],
        "lanes": [[one.x, one.y, one.stream] for one in placed.names],
        "bodies": [[printable(body.label), body.parent] for body in form.bodies],
        "nodes": _nodes(form, placed.boxes, order, times),
        "stages": _stages(form, order, times),
        "memory": _memory(form, found),
        "in_use": in_use(form.memory, found, len(order)),
        "critical": {"nodes": path.nodes, "text": path.text},
        "timed": times is not None,
    }  # fmt: skip


def _check(form: Form) -> None:
    edges = sum(len(node.waits) for node in form.nodes)
    found = {
        "nodes": len(form.nodes),
        "edges": edges,
        "memory": len(form.memory),
        "bodies": len(form.bodies),
        "stages": len({node.stage for node in form.nodes}),
    }
    for what, most in LIMITS.items():
        if found[what] > most:
            raise ConfigError(
                f"a page holds at most {most} {what}, and this graph has {found[what]}; "
                "write it with --json or --dot, or capture a part of it"
            )


def _nodes(
    form: Form,
    boxes: Sequence[tuple[int, int, int]],
    order: Sequence[int],
    times: Sequence[float] | None,
) -> list[dict[str, Any]]:
    at = {index: place for place, index in enumerate(order)}
    return [
        {
            "body": node.body,
            "kind": printable(node.kind),
            "name": printable(node.name),
            "where": printable(node.where),
            "stage": printable(node.stage),
            "stream": node.stream,
            "enabled": node.enabled,
            "attributes": [[name, _attribute(value)] for name, value in node.attributes.items()
                           if value not in _NO_SIZE],
            "arguments": [_argument(form, one) for one in node.arguments],
            "waits": node.waits,
            "x": boxes[node.index][0],
            "y": boxes[node.index][1],
            "width": boxes[node.index][2],
            "at": at[node.index],
            "us": None if times is None else round(times[node.index], 3),
        }
        for node in form.nodes
    ]  # fmt: skip


def _attribute(value: object) -> str:
    told = " × ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return printable(told)


def _argument(form: Form, one: Argument) -> list[Any]:
    """Name, type, value, place of its memory or None, offset, and what is done there or ""."""
    value = one.text()
    if len(value) > _LONGEST_VALUE:
        value = f"{value[:_LONGEST_VALUE]}... ({len(one.data)} bytes)"
    access = "" if one.memory is None else _ACCESS[one.const if one.pointer else None]
    return [printable(one.name), printable(one.type), value, one.memory, one.offset, access]


def _stages(
    form: Form, order: Sequence[int], times: Sequence[float] | None
) -> list[dict[str, Any]]:
    """The stages and those that they are in, each with what is inside of it."""
    found: dict[str, dict[str, Any]] = {}
    for index in order:
        node = form.nodes[index]
        for name in _outwards(node.stage):
            stage = found.setdefault(name, {"name": printable(name), "nodes": 0, "us": None,
                                            "first": index})  # fmt: skip
            stage["nodes"] += 1
            if times is not None:
                stage["us"] = (stage["us"] or 0.0) + times[index]
    place = {name: at for at, name in enumerate(found)}

    def key(name: str) -> list[int]:  # those inside of a stage stand behind it
        return [place[one] for one in reversed(_outwards(name))]

    hues: dict[str, int] = {}
    for name in sorted(found, key=key):
        found[name]["hue"] = hues.setdefault(name.partition("/")[0], len(hues))
    return [found[name] for name in sorted(found, key=key)]


def _outwards(stage: str) -> list[str]:
    """A stage and those that it is in: "a/b", "a". What lies too deep is one."""
    parts = stage.split("/", _DEEPEST - 1)
    return ["/".join(parts[:depth]) for depth in range(len(parts), 0, -1)]


def _memory(form: Form, found: Sequence[Life]) -> list[dict[str, Any]]:
    return [
        {
            **_told(one),
            "nbytes": one.nbytes,
            "size": readable(one.nbytes),
            "first": life.first,
            "last": life.last,
            "y": place[0],
            "height": place[1],
        }
        for one, life, place in zip(form.memory, found, address_map(form.memory), strict=True)
    ]


def _told(one: Memory) -> dict[str, Any]:
    return {
        "name": printable(one.name),
        "address": f"{one.address:#x}",
        "role": one.role,
        "owner": printable(one.owner),
        "alive": one.alive,
        "where": printable(one.where),
    }
