"""Form: a captured graph as plain data, so that it can be written, read, compared and checked.

A form names what the driver's nodes hold: memory by the name of its slice, arguments by the name of
the kernel's parameter. It keeps no handle and no device; what it says was true when it was read.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = [
    "ATTRIBUTES",
    "CODES",
    "ROLES",
    "Argument",
    "Attribute",
    "Body",
    "Form",
    "Memory",
    "Node",
]

Attribute = int | str | bool | tuple[int, ...]

ROLES = ("slice", "graph", "workspace", "primed", "staging", "foreign")
"""What memory is: a slice of the user's, taken in a graph's body, lent to a library, kept by an
unrecorded pass, a pinned staging slot, or a buffer of somebody else's that was declared."""

ATTRIBUTES: dict[str, dict[str, type]] = {
    "kernel": {
        "source": str,
        "source_hash": str,
        "grid": tuple,
        "block": tuple,
        "shared": int,
        "cluster": tuple,
        "cooperative": bool,
    },
    "memset": {"value": int, "element": int, "width": int, "height": int, "pitch": int},
    "memcpy": {
        "direction": str,
        "width": int,
        "height": int,
        "depth": int,
        "to_pitch": int,
        "source_pitch": int,
    },
    "mem_alloc": {"nbytes": int},
}
"""What nodes of a kind have beside arguments; a tuple is three numbers. Bytes: shared, a copy's
width, pitches (0 for one row), nbytes; a fill's width is elements of `element` bytes."""

CODES = frozenset("efd?bBhHiIqQ")
"""Letters of the struct module that a typed argument may have; "" is raw bytes."""


@dataclass(frozen=True)
class Memory:
    """A run of device memory that arguments point into.

    nbytes: of the whole block. id, generation: of the slice, 0 for other memory. role: one of
    ROLES. owner: label of the graph or library that keeps it, "" if the name does.
    alive: had not been given back. where: file:line that gave it back, if that is known.
    """

    name: str
    address: int
    nbytes: int
    id: int = 0
    generation: int = 0
    role: str = "slice"
    owner: str = ""
    alive: bool = True
    where: str = ""


@dataclass(frozen=True)
class Argument:
    """One argument of a node.

    name, type: of the kernel's parameter ("x", "const float*"); "argument 3", "8 bytes" where the
    kernel's signature is not known. code: see CODES. pointer: whether it is a device address; None
    where that is not known. const: of a pointer, whether the node only reads there; None as before.
    data: its bytes. memory, offset: place in Form.memory, and bytes from its begin; None elsewhere.
    reach: offset from there and bytes of what the launch was given, a slice or parts of one; None
    if it was given an address alone.
    """

    name: str
    type: str
    code: str
    pointer: bool | None
    const: bool | None
    data: bytes
    memory: int | None = None
    offset: int | None = None
    reach: tuple[tuple[int, int], ...] | None = None

    @property
    def word(self) -> int:
        """The bytes as one number: an address."""
        return int.from_bytes(self.data, "little")

    @property
    def value(self) -> int | float | bool | None:
        """A scalar's value; None of a pointer and of raw bytes."""
        if self.pointer or not self.code:
            return None
        value: int | float | bool = struct.unpack(f"<{self.code}", self.data)[0]
        return value

    def text(self) -> str:
        """The value for people; an address and raw bytes in hexadecimal."""
        value = self.value
        return f"0x{self.data[::-1].hex()}" if value is None else repr(value)


@dataclass(frozen=True)
class Node:
    """One node.

    index: its place in Form.nodes. body: place in Form.bodies. kind: "kernel", "memset" ...
    name: of the kernel, or the kind. where, stage: what issued it, "" if not known.
    waits: the nodes that it waits for, of the same body, in the driver's order.
    attributes: those of ATTRIBUTES for its kind. stream: number of the one that it was sent to, 0
    being the captured one; None if not known, as of a graph of somebody else's.
    """

    index: int
    body: int
    kind: str
    name: str
    where: str = ""
    stage: str = ""
    enabled: bool = True
    waits: tuple[int, ...] = ()
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    arguments: tuple[Argument, ...] = ()
    stream: int | None = None

    @property
    def title(self) -> str:
        """ "node 3 (kernel gelu, file:line)" for messages."""
        what = f"kernel {self.name}" if self.kind == "kernel" else self.name
        stage = f"stage {self.stage!r}" if self.stage else ""
        return f"node {self.index} ({', '.join(filter(None, (what, stage, self.where)))})"


@dataclass(frozen=True)
class Body:
    """A graph: the whole one (parent None, the first), a child graph or a conditional's body.

    parent: the node that it runs in, None where that is not known.
    """

    label: str
    parent: int | None = None


@dataclass(frozen=True)
class Form:
    """See the module.

    label: of the step. device: "host", "cuda:0". origin: "lowgraph", or "handle" of a graph that
    somebody else made. memory: what arguments point into. notes: what could not be read, and where
    a node of the driver's does not hold what was launched.
    """

    label: str
    device: str
    origin: str
    memory: tuple[Memory, ...]
    nodes: tuple[Node, ...]
    bodies: tuple[Body, ...]
    notes: tuple[str, ...] = ()

    @property
    def edges(self) -> list[tuple[int, int]]:
        """(from, to) of every node's waits, in the driver's order at each node."""
        return [(start, node.index) for node in self.nodes for start in node.waits]

    def inside(self) -> list[list[Node]]:
        """The nodes of each body, in their order."""
        found: list[list[Node]] = [[] for _ in self.bodies]
        for node in self.nodes:
            found[node.body].append(node)
        return found

    def place(self, argument: Argument) -> str:
        """ "x + 64" for an argument that points into known memory, else ""."""
        if argument.memory is None:
            return ""
        name = self.memory[argument.memory].name
        return f"{name} + {argument.offset}" if argument.offset else name
