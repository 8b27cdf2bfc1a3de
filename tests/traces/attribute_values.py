"""Values of launch attributes as the driver's own bytes, whatever bindings are installed.

A value is written `1`, or `1:64` where it has several fields; the fields are read back as a list.
A window's first field is memory by its name (world.py), read back as `buffer` or `null`.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from tests.traces.world import World

BYTES = 64  # of the union CUlaunchAttributeValue
# Names with the number of CUlaunchAttributeID and the fields; `attributeN` is any other number.
KINDS = {
    "ignore": (0, "<i"),
    "window": (1, "<QQfii"),  # address, bytes, share of hits, what a hit and a miss are
    "cooperative": (2, "<i"),
    "policy": (3, "<i"),  # of a synchronisation: how the host waits
    "cluster": (4, "<III"),
    "scheduling": (5, "<i"),
    "serialization": (6, "<i"),
    "priority": (8, "<i"),
    "domains": (9, "<BB"),  # the map: of the default domain, of the remote one
    "domain": (10, "<i"),
    "preferred": (11, "<III"),
    "updatable": (13, "<i"),
    "carveout": (14, "<I"),
    "nvlink": (16, "<i"),
}


def kind_of(name: str) -> tuple[int, str]:
    """The attribute's number and the form of its value."""
    if name.startswith("attribute"):
        return int(name.removeprefix("attribute")), "<i"
    return KINDS[name]


def _field(world: World, letter: str, text: str) -> int | float:
    if letter == "f":
        return float(text)
    return int(text) if text.lstrip("-").isdigit() else world.address(text)


def packed(world: World, name: str, value: str) -> Any:
    """The value as the bytes of the union; a cluster may leave its second and third size out."""
    form = kind_of(name)[1]
    parts = value.split(":")
    parts += ["1"] * (len(form) - 1 - len(parts))
    fields = [_field(world, letter, part) for letter, part in zip(form[1:], parts, strict=True)]
    return (ctypes.c_char * BYTES)(*struct.pack(form, *fields))


def unpacked(world: World, name: str, value: Any) -> int | list[Any]:
    """The value's fields; of one field, that."""
    form = kind_of(name)[1]
    fields: list[Any] = list(struct.unpack_from(form, bytes(value)))
    if name == "window":
        known = {world.address(place): place for place in ("buffer", "inside", "null")}
        fields[0] = known.get(fields[0], "elsewhere")
    return fields if len(fields) > 1 else int(fields[0])
