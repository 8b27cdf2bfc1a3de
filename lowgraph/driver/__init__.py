"""Thin checked calls over cuda.bindings.driver: one function a driver call, async forms only.

`open_device` comes first; everything else needs the device it opens. Handles (streams, events,
modules, functions, graphs, nodes) and addresses are plain integers, as C and other libraries use
them.
"""

from __future__ import annotations

from lowgraph.driver import (
    callbacks,
    callers,
    captures,
    codes,
    compat,
    conditional,
    context,
    entry,
    event,
    foreign_stream,
    forked,
    gate,
    graph,
    launch,
    memory,
    module,
    node,
    poison,
    stream,
    transplant,
)
from lowgraph.driver.device import Device
from lowgraph.driver.selection import current, open_device

__all__ = [
    "Device",
    "callbacks",
    "callers",
    "captures",
    "codes",
    "compat",
    "conditional",
    "context",
    "current",
    "entry",
    "event",
    "foreign_stream",
    "forked",
    "gate",
    "graph",
    "launch",
    "memory",
    "module",
    "node",
    "open_device",
    "poison",
    "stream",
    "transplant",
]
