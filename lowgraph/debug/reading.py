"""Reading a graph into a Form: from the driver's own nodes, checked against what was launched."""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from lowgraph import driver
from lowgraph.capture import CapturedGraph, ForeignMemory, GraphStep, Journal, NodeRecord
from lowgraph.capture.journal import Call, LaunchRecord
from lowgraph.capture.node_params import Contents
from lowgraph.debug.form import Argument, Attribute, Body, Form, Node
from lowgraph.debug.known_memory import KnownMemory
from lowgraph.driver.graph import KernelParams
from lowgraph.driver.node import CopyParams, FillParams
from lowgraph.errors import ConfigError
from lowgraph.memory import PersistentPool

__all__ = ["Reading", "declared_memory", "read", "read_handle", "reread", "take", "take_handle"]


class Reading:
    """A form, and what of it lives: the slice or foreign buffer behind each of its memories."""

    def __init__(self, form: Form, known: KnownMemory) -> None:
        self.form = form
        self.pieces = tuple(known.pieces)


def read(subject: GraphStep | CapturedGraph, foreign: Sequence[ForeignMemory] = ()) -> Form:
    """The form of what a live graph holds now, settings of nodes included.

    foreign: buffers of others that it uses; a step's declared inputs and pins are among them
    anyway. A driver call or more a node; nothing is launched. Raises ConfigError for a step without
    a graph, PhaseError for a closed graph, DriverError.
    """
    return take(subject, foreign).form


def take(subject: GraphStep | CapturedGraph, foreign: Sequence[ForeignMemory] = ()) -> Reading:
    """`read`, with the memory behind it."""
    if isinstance(subject, GraphStep):
        if subject.graph is None:
            why = subject.report().why_no_graph
            raise ConfigError(f"{subject.label!r} has no graph to read: {why}")
        foreign = (*foreign, *declared_memory(subject))
        subject = subject.graph
    pool, contents = subject.pool, subject.contents
    known = KnownMemory(pool, foreign, contents.journal)
    reader = _Reader(known, contents.journal)
    reader.add(contents, Body(subject.label))
    for number, inside in enumerate(contents.inside, start=1):
        reader.add(inside, Body(f"body {number} of a conditional"))
    return Reading(reader.form(subject.label, pool.device.spec, "lowgraph"), known)


def declared_memory(step: GraphStep) -> list[ForeignMemory]:
    """Buffers of others that a step's inputs and pins were at when it last looked."""
    return [pin.owner for pin in step.declared if isinstance(pin.owner, ForeignMemory)]


def read_handle(
    handle: int,
    *,
    label: str = "graph",
    pool: PersistentPool | None = None,
    foreign: Sequence[ForeignMemory] = (),
) -> Form:
    """The form of a graph (CUgraph) that somebody else made: CuPy, cuda.core, the driver's API.

    Kernels have the names that the driver knows. The names and types of their arguments are not
    known: they are raw bytes, and such as may be an address of known memory point there.
    Raises ConfigError for no handle, DriverError.
    """
    return take_handle(handle, label, pool, foreign).form


def take_handle(
    handle: int, label: str, pool: PersistentPool | None, foreign: Sequence[ForeignMemory]
) -> Reading:
    """`read_handle`, with the memory behind it."""
    if not isinstance(handle, int) or handle <= 0:
        raise ConfigError(f"{handle!r} is no handle of a graph; give the integer of a CUgraph")
    known, journal = KnownMemory(pool, foreign), Journal("light")
    reader = _Reader(known, journal)
    reader.add(Contents(handle, journal), Body(label))
    return Reading(reader.form(label, driver.current().spec, "handle"), known)


def reread(node: Node, record: NodeRecord, known: KnownMemory) -> Node:
    """The node with what its record holds now; its memories are places in `known.used`."""
    attributes, arguments = _Reader(known, Journal("light")).held(record, 0)
    return replace(node, enabled=record.enabled, attributes=attributes, arguments=arguments)


class _Reader:
    """Nodes of a graph and of the graphs inside of it, one list."""

    def __init__(self, known: KnownMemory, journal: Journal) -> None:
        self._known = known
        self._launched_at = [launch.index for launch in journal.launches]
        self._nodes: list[Node] = []
        self._bodies: list[Body] = []
        self._notes: list[str] = []
        self._hashes: dict[Path, str] = {}

    def form(self, label: str, device: str, origin: str) -> Form:
        """What was added."""
        parts = tuple(self._nodes), tuple(self._bodies), tuple(self._notes)
        return Form(label, device, origin, tuple(self._known.used), *parts)

    def add(self, contents: Contents, body: Body) -> None:
        """Add a graph as a body, and the child graphs in it behind it."""
        number, base = len(self._bodies), len(self._nodes)
        self._bodies.append(body)
        for index in range(len(contents.nodes)):
            self._nodes.append(self._node(contents, index, number, base))
        for index, kind in enumerate(contents.kinds):
            if kind == "graph":
                child = driver.node.child_graph(contents.nodes[index])
                inside = Contents(child, Journal("light"))
                self.add(inside, Body(f"child graph of node {base + index}", base + index))
            elif kind == "conditional" and not contents.bodies:
                self._notes.append(f"node {base + index}: the conditional's bodies were not read")

    def _node(self, contents: Contents, index: int, body: int, base: int) -> Node:
        record, origin = contents.record(index), contents.origins.get(index)
        launches = self._launches_before(origin)
        attributes, arguments = self.held(record, launches)
        if record.kind == "mem_alloc":
            attributes = {"nbytes": driver.node.alloc_bytes(contents.nodes[index])}
        node = Node(
            base + index,
            body,
            record.kind,
            record.name,
            record.where,
            record.stage,
            record.enabled,
            tuple(base + before for before in contents.waits[index]),
            attributes,
            arguments,
            record.stream,
        )
        if isinstance(origin, LaunchRecord):
            node = replace(node, arguments=_reaching(node.arguments, origin))
            params = driver.graph.kernel_params(contents.nodes[index])
            self._notes += [f"{node.title}: {told}" for told in _differs(params, origin)]
        return node

    def _launches_before(self, origin: object) -> int:
        if not isinstance(origin, LaunchRecord | Call):
            return len(self._launched_at)
        return bisect_left(self._launched_at, origin.index)

    def held(
        self, record: NodeRecord, launches: int
    ) -> tuple[dict[str, Attribute], tuple[Argument, ...]]:
        """Attributes and arguments of a node that was issued behind so many launches."""
        params = record.params
        if isinstance(params, KernelParams):
            return self._kernel(record, params), self._arguments(record, params, launches)
        if isinstance(params, FillParams):
            to = self._end("to", params.address, True, False, launches)
            return _numbers(params, "address"), (to,)
        if isinstance(params, CopyParams):
            source, target = (end == "device" for end in params.direction.split(" to "))
            to = self._end("to", params.to, target, False, launches)
            ends = to, self._end("source", params.source, source, True, launches)
            return _numbers(params, "to", "source"), ends
        return {}, ()

    def _kernel(self, record: NodeRecord, params: KernelParams) -> dict[str, Attribute]:
        file = None if record.signature is None else record.signature.file
        return {
            "source": "" if file is None else file.name,
            "source_hash": "" if file is None else self._hash_of(file),
            "grid": tuple(params.grid),
            "block": tuple(params.block),
            "shared": params.shared,
            "cluster": tuple(record.cluster),
            "cooperative": record.cooperative,
        }

    def _arguments(
        self, record: NodeRecord, params: KernelParams, launches: int
    ) -> tuple[Argument, ...]:
        if record.signature is None:
            return tuple(self._raw(place, data) for place, data in enumerate(params.args))
        found = []
        for param, data in zip(record.signature.params, params.args, strict=True):
            const = param.const if param.pointer else None
            ctype = f"const {param.ctype}" if const else param.ctype
            told = Argument(param.name, ctype, param.code, param.pointer, const, data)
            found.append(self._placed(told, launches) if param.pointer else told)
        return tuple(found)

    def _raw(self, place: int, data: bytes) -> Argument:
        told = Argument(f"argument {place}", f"{len(data)} bytes", "", None, None, data)
        return self._placed(told, len(self._launched_at)) if len(data) == 8 else told

    def _end(self, name: str, address: int, device: bool, const: bool, launches: int) -> Argument:
        data = struct.pack("<Q", address)
        if not device:  # the host's memory: no pointer of the device's
            return Argument(name, "host address", "", False, None, data)
        return self._placed(Argument(name, "device address", "Q", True, const, data), launches)

    def _placed(self, argument: Argument, launches: int) -> Argument:
        place = self._known.find(argument.word, launches) if argument.word else None
        if place is None:
            return argument
        offset = argument.word - self._known.used[place].address
        return replace(argument, memory=place, offset=offset)

    def _hash_of(self, file: Path) -> str:
        found = self._hashes.get(file)
        if found is None:
            try:
                found = hashlib.sha256(file.read_bytes()).hexdigest()
            except OSError as error:
                self._notes.append(f"{file.name} cannot be read: {error.strerror or error}")
                found = ""
            self._hashes[file] = found
        return found


def _numbers(params: FillParams | CopyParams, *left_out: str) -> dict[str, Attribute]:
    names = [field.name for field in fields(params) if field.name not in left_out]
    return {name: getattr(params, name) for name in names}


def _differs(params: KernelParams, launched: LaunchRecord) -> list[str]:
    """Where the driver's node does not hold what was launched; [] is what should be."""
    told = []
    names = ("grid", "block", "shared")
    for name, now, then in zip(names, (params.grid, params.block, params.shared), launched.sizes,
                               strict=False):  # fmt: skip
        if now != then:
            told.append(f"{name} is {now} in the driver's node, launched was {then}")
    if launched.signature is None:
        return told
    given: dict[str, Any] = dict(launched.pointers) | dict(launched.scalars)
    for param, data in zip(launched.signature.params, params.args, strict=True):
        packed = struct.pack(f"<{param.code}", given[param.name])
        if packed != data:
            told.append(f"{param.name} is 0x{data[::-1].hex()} in the driver's node, launched was "
                        f"0x{packed[::-1].hex()}")  # fmt: skip
    return told


def _reaching(arguments: tuple[Argument, ...], launch: LaunchRecord) -> tuple[Argument, ...]:
    """The arguments with how much of their memory the launch was given."""
    reaches = dict(launch.reaches)
    return tuple(
        one if one.memory is None else replace(one, reach=reaches.get(one.name))
        for one in arguments
    )
