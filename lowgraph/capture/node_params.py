"""What the nodes of a recorded graph hold, with the line that issued each: our own record.

The driver has no call that reads an executable back. A recorded graph can be read, though, and it
is kept for as long as its executable: so the record is read from it, node by node, when somebody
asks, and what is set in the executable later is written over it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from lowgraph import driver
from lowgraph.capture.journal import Call, Journal, LaunchRecord, LibraryCall
from lowgraph.driver.graph import KernelParams
from lowgraph.driver.node import CopyParams, FillParams
from lowgraph.errors import ConfigError
from lowgraph.kernels.packing import ArgumentPack
from lowgraph.kernels.signature import Signature

__all__ = ["Contents", "NodeRecord", "readable_argument"]

_ISSUED_BY = {
    "cuMemsetD8Async": "memset",
    "cuMemsetD32Async": "memset",
    "cuMemcpyHtoDAsync": "memcpy",
    "cuMemcpyDtoHAsync": "memcpy",
    "cuMemcpyDtoDAsync": "memcpy",
}
_NO_CLUSTER = (0, 0, 0)

Origin = LaunchRecord | Call | LibraryCall
Packed = tuple[int, ArgumentPack]


@dataclass(frozen=True)
class NodeRecord:
    """One node: its place in the graph, its type, and what it holds.

    name: of the kernel, or the type. where: file:line that issued it, stage: that this was in, both
    "" if that did not pass through lowgraph. params: of kernel, memset and memcpy nodes.
    signature: of a kernel of ours. cluster: (0, 0, 0) if none. cooperative: of the
    launch. enabled: in the executable. stream: number of the one that it was sent to, 0 being the
    captured one, as `Journal.stream_numbers` has it; None if not known.
    """

    index: int
    kind: str
    name: str
    where: str
    params: KernelParams | FillParams | CopyParams | None = None
    signature: Signature | None = None
    cluster: tuple[int, int, int] = _NO_CLUSTER
    cooperative: bool = False
    enabled: bool = True
    stage: str = ""
    stream: int | None = None

    def __str__(self) -> str:
        what = f"kernel {self.name}" if self.kind == "kernel" else self.name
        stage = f"stage {self.stage!r}" if self.stage else ""
        return f"node {self.index} ({', '.join(filter(None, (what, stage, self.where)))})"

    def holds(self) -> dict[str, str]:
        """What it holds as readable text by name, arguments of kernels included."""
        if isinstance(self.params, KernelParams):
            return self._kernel_holds(self.params)
        if self.params is None:
            return {}
        told = {field.name: getattr(self.params, field.name) for field in fields(self.params)}
        return {name: _readable(value) for name, value in told.items()}

    def _kernel_holds(self, params: KernelParams) -> dict[str, str]:
        told = {"kernel": self.name, "grid": f"{params.grid}", "block": f"{params.block}"}
        told |= {"shared": f"{params.shared}", "cluster": f"{self.cluster}"}
        told["launch"] = "cooperative" if self.cooperative else "normal"
        known = () if self.signature is None else self.signature.params
        for place, value in enumerate(params.args):
            name = known[place].name if place < len(known) else f"argument {place}"
            told[name] = readable_argument(value)
        return told


def _readable(value: Any) -> str:
    return hex(value) if isinstance(value, int) and value > 0xFFFF else str(value)


def readable_argument(value: bytes) -> str:
    """An argument's bytes as hexadecimal, the most significant first, as addresses are written."""
    return "0x" + value[::-1].hex()


class Contents:
    """The nodes of one recorded graph. Nothing is read before it is asked for.

    graph: its handle, alive for as long as this is used. journal: of the window that recorded it.
    bodies: graphs of its conditional nodes, whose nodes are no part of the record: see `inside`.
    """

    def __init__(self, graph: int, journal: Journal, bodies: tuple[int, ...] = ()) -> None:
        self.graph = graph
        self.journal = journal
        self.bodies = bodies
        self._records: dict[int, NodeRecord] = {}
        self._packs: dict[tuple[int, str], Packed] = {}

    @cached_property
    def inside(self) -> tuple[Contents, ...]:
        """The bodies, each as a graph of its own."""
        numbered = enumerate(self.bodies, start=1)
        return tuple(Contents(body, self.journal.of_body(number)) for number, body in numbered)

    @cached_property
    def nodes(self) -> tuple[int, ...]:
        """Handles, in the driver's order: that of recording."""
        return tuple(driver.graph.nodes(self.graph))

    @cached_property
    def index_of(self) -> dict[int, int]:
        """Index by handle."""
        return {node: index for index, node in enumerate(self.nodes)}

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Types."""
        return tuple(driver.graph.node_type(node) for node in self.nodes)

    @cached_property
    def clusters(self) -> dict[int, tuple[int, int, int]]:
        """Cluster size by index, of the kernel nodes that have one."""
        sizes = {
            index: driver.graph.cluster_of(self.nodes[index])
            for index, kind in enumerate(self.kinds)
            if kind == "kernel"
        }
        return {index: size for index, size in sizes.items() if size != _NO_CLUSTER}

    @cached_property
    def waits(self) -> tuple[tuple[int, ...], ...]:
        """Of each node the indices of those that it waits for, in the driver's order."""
        before: dict[int, list[int]] = defaultdict(list)
        for start, end in driver.graph.edges(self.graph):
            before[end].append(start)
        # Only where there are several does their order matter, and the list of edges may lose it.
        ordered = (
            before[node] if len(before[node]) < 2 else driver.node.dependencies(node)
            for node in self.nodes
        )
        return tuple(tuple(self.index_of[start] for start in starts) for starts in ordered)

    @cached_property
    def functions(self) -> dict[int, int]:
        """Function by index, of the kernel nodes."""
        return {
            index: driver.graph.function_of(self.nodes[index])
            for index, kind in enumerate(self.kinds)
            if kind == "kernel"
        }

    @cached_property
    def origins(self) -> dict[int, Origin]:
        """What issued each node, by index: the k-th launch of a function is its k-th node.

        Left out are nodes that a library call is known to have added. Kernels that no launch of
        ours issued are, in their order, those of the other library calls, if there are as many as
        these counted.
        """
        told = {node: call for call in self.journal.library for node in call.nodes}
        launches: dict[object, deque[LaunchRecord | Call]] = defaultdict(deque)
        for launch in self.journal.launches:
            if not launch.body:
                launches[launch.function].append(launch)
        for call in self.journal.calls:
            if call.code == 0 and not call.body and call.op in _ISSUED_BY:
                launches[_ISSUED_BY[call.op]].append(call)
        found: dict[int, Origin] = {
            index: told[node] for index, node in enumerate(self.nodes) if node in told
        }
        for index, kind in enumerate(self.kinds):
            if index in found:
                continue
            left = launches[self.functions.get(index, kind)]
            if left:
                found[index] = left.popleft()
        foreign = [index for index in self.functions if index not in found]
        others = (call for call in self.journal.library if not call.nodes and not call.body)
        calls = [call for call in others for _ in range(call.kernels or 0)]
        if len(foreign) == len(calls):
            found.update(zip(foreign, calls, strict=True))
        return found

    def name(self, index: int) -> str:
        """The kernel's name, of a library's kernel too, or the type."""
        function = self.functions.get(index)
        if function is None:
            return self.kinds[index]
        known = driver.gate.function_names.get(function)
        return driver.module.function_name(function) if known is None else known

    def stream(self, index: int) -> int | None:
        """Number of the stream that a node was sent to; see NodeRecord."""
        origin = self.origins.get(index)
        if origin is None or origin.stream is None:
            return None
        if isinstance(origin, LibraryCall) and not self._is_chain(origin):
            return None  # it has forked, and which node went where is not known
        return self._stream_numbers.get(origin.stream)

    @cached_property
    def _stream_numbers(self) -> dict[int, int]:
        return self.journal.stream_numbers

    def _is_chain(self, call: LibraryCall) -> bool:
        places = [self.index_of[node] for node in call.nodes]
        return all(self.waits[after] == (before,) for before, after in pairwise(places))

    def record(self, index: int) -> NodeRecord:
        """What node `index` holds. Raises ConfigError for an index that the graph has not."""
        if not 0 <= index < len(self.nodes):
            raise ConfigError(f"node {index}: the graph has nodes 0 to {len(self.nodes) - 1}")
        found = self._records.get(index)
        if found is None:
            found = self._records[index] = self._read(index)
        return found

    def changed_arguments(self, index: int, args: Mapping[str, Any]) -> tuple[bytes, ...]:
        """A kernel node's argument bytes with those of `args`, by name, in the place of the old.

        Raises ConfigError for a kernel without a known signature and for a name that it has not,
        ArgTypeError for a value that does not fit.
        """
        record = self.record(index)
        assert isinstance(record.params, KernelParams), "a kernel node has kernel parameters"
        if record.signature is None:
            raise ConfigError(
                f"{record}: the names of its parameters are not known; it is no kernel of ours"
            )
        values = list(record.params.args)
        for name, value in args.items():
            place, pack = self._pack(record, record.signature, name)
            pack.store(pack.values([value]))
            values[place] = pack.bytes_of(0)
        return tuple(values)

    def write(self, record: NodeRecord) -> None:
        """The executable holds this from now on."""
        self._records[record.index] = record

    @property
    def disabled(self) -> list[NodeRecord]:
        """Nodes that do not run."""
        return [record for record in self._records.values() if not record.enabled]

    def find(self, name: str) -> tuple[int, ...]:
        """Indices of the nodes whose kernel, or type, has that name."""
        return tuple(n for n in range(len(self.nodes)) if self.name(n) == name)

    def _pack(self, record: NodeRecord, signature: Signature, name: str) -> Packed:
        """Where a kernel has the parameter, and what checks and packs it alone as a launch does."""
        assert isinstance(record.params, KernelParams)
        key = record.params.function, name
        found = self._packs.get(key)
        if found is None:
            names = [param.name for param in signature.params]
            if name not in names:
                raise ConfigError(f"{record} has no argument {name!r}; it is {signature}")
            place = names.index(name)
            alone = replace(signature, params=signature.params[place : place + 1])
            found = self._packs[key] = place, ArgumentPack(alone)
        return found

    def _read(self, index: int) -> NodeRecord:
        node, kind = self.nodes[index], self.kinds[index]
        origin = self.origins.get(index)
        record = NodeRecord(index, kind, self.name(index), "")
        if origin is not None:
            stream = self.stream(index)
            record = replace(record, where=origin.where, stage=origin.stage, stream=stream)
        if kind == "kernel":
            return replace(
                record,
                params=driver.graph.kernel_params(node),
                signature=origin.signature if isinstance(origin, LaunchRecord) else None,
                cluster=driver.graph.cluster_of(node),
                cooperative=driver.node.cooperative_of(node),
            )
        if kind == "memset":
            return replace(record, params=driver.node.fill_params(node))
        if kind == "memcpy":
            return replace(record, params=driver.node.copy_params(node))
        return record
