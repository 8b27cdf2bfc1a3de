"""Where a graph holds an address, and how it is given another one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from lowgraph import driver
from lowgraph.capture.node_params import Contents, NodeRecord
from lowgraph.capture.pinned_memory import Place
from lowgraph.capture.pins import Rebind
from lowgraph.driver.graph import KernelParams
from lowgraph.driver.node import CopyParams, FillParams
from lowgraph.errors import CaptureRefused

__all__ = ["Holder", "Settable", "addresses", "find_holders", "rebind"]


class Settable(Protocol):
    """An executable graph whose kernel nodes take other arguments (CapturedGraph)."""

    def set_params(
        self, index: int, args: Mapping[str, Any] | None = None, *, hold: bool = True
    ) -> None:
        """Give node `index` other arguments, by parameter name; hold: keep what they point at."""


@dataclass(frozen=True)
class Holder:
    """A kernel node's argument that points into a pinned memory, `offset` bytes from its begin."""

    index: int
    parameter: str
    offset: int


def addresses(contents: Contents) -> set[int]:
    """Every device address that the graph was given by us: arguments, copies and fills."""
    found = contents.journal.addresses
    for index, kind in enumerate(contents.kinds):
        if kind in ("memcpy", "memset"):
            found |= set(_copied(contents.record(index)))
    return found


def find_holders(contents: Contents, pin: Rebind, place: Place) -> list[Holder]:
    """The arguments that hold an address of the pin's memory.

    Raises CaptureRefused when a node holds one that cannot be set: of a library's kernel, a copy, a
    fill. A value counts as an address only where the signature says pointer.
    """
    found: list[Holder] = []
    for index in range(len(contents.nodes)):
        record = contents.record(index)
        signature, params = record.signature, record.params
        if not isinstance(params, KernelParams):
            held = any(_inside(place, address) for address in _copied(record))
        elif signature is None:
            held = any(_inside(place, word) for value in params.args for word in _words(value))
        else:
            held = False
            for param, value in zip(signature.params, params.args, strict=True):
                address = int.from_bytes(value, "little")
                if param.pointer and _inside(place, address):
                    found.append(Holder(index, param.name, address - place.address))
        if held:
            raise _unreachable(record, pin)
    for body in contents.bodies:
        if any(_inside(place, word) for word in _words_of_body(body)):
            reason = f"a conditional's body holds the address of rebind pin {pin.name!r}, where it"
            raise CaptureRefused(f"{reason} cannot be set", None, _ADVICE)
    for call in contents.journal.library:
        if any(_inside(place, address) for address in call.addresses):
            reason = f"{call.name} holds the address of rebind pin {pin.name!r}, where it cannot be"
            raise CaptureRefused(f"{reason} set", call.where, _ADVICE)
    return found


def rebind(graph: Settable, holders: list[Holder], place: Place) -> None:
    """Set every node to the memory's new place: one driver call each, for later launches.

    The memory is not held for the graph: its owner may move on at the next step.
    """
    args: dict[int, dict[str, int]] = defaultdict(dict)
    for holder in holders:
        args[holder.index][holder.parameter] = place.address + holder.offset
    for index, given in args.items():
        graph.set_params(index, given, hold=False)


_ADVICE = "pin it by CopyIn"


def _unreachable(record: NodeRecord, pin: Rebind) -> CaptureRefused:
    reason = f"{record} holds the address of rebind pin {pin.name!r}, where it cannot be set"
    return CaptureRefused(reason, record.where or None, _ADVICE)


def _inside(place: Place, address: int) -> bool:
    return place.address <= address < place.address + place.nbytes


def _copied(record: NodeRecord) -> tuple[int, ...]:
    params = record.params
    if isinstance(params, CopyParams):
        return params.to, params.source
    return (params.address,) if isinstance(params, FillParams) else ()


def _words_of_body(body: int) -> list[int]:
    """Every number in a body that may be an address; the record of nodes has none of them."""
    found: list[int] = []
    for node in driver.graph.nodes(body):
        kind = driver.graph.node_type(node)
        if kind == "kernel":
            found += [w for arg in driver.graph.kernel_params(node).args for w in _words(arg)]
        elif kind == "memset":
            found.append(driver.node.fill_params(node).address)
        elif kind == "memcpy":
            copy = driver.node.copy_params(node)
            found += [copy.to, copy.source]
    return found


def _words(value: bytes) -> list[int]:
    """The aligned 64-bit words of an argument: a struct by value may hold addresses."""
    return [int.from_bytes(value[at : at + 8], "little") for at in range(0, len(value) - 7, 8)]
