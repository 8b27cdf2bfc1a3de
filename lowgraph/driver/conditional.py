"""Conditional nodes: IF and WHILE over body graphs. Graphs and nodes are handles as integers.

A node looks at a condition, a number that kernels of the same launch set by
`cudaGraphSetConditional(handle, value)`. On driver 13.0 a node tells its bodies only when it is
made: keep what `add` returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cuda.bindings import driver

from lowgraph.driver import captures, compat, gate
from lowgraph.driver.stream import mode_of
from lowgraph.errors import ConfigError
from lowgraph.integers import integer

__all__ = ["ConditionalNode", "add", "add_to_capture", "begin_body", "create_handle", "hold_place"]

_ASSIGN_DEFAULT = 1  # CU_GRAPH_COND_ASSIGN_DEFAULT
_SET_DEPENDENCIES = 1  # CU_STREAM_SET_CAPTURE_DEPENDENCIES
_KINDS = {
    "if": driver.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_IF,
    "while": driver.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE,
}


@dataclass(frozen=True)
class ConditionalNode:
    """A node and its body graphs, which live as long as it does."""

    node: int
    bodies: tuple[int, ...]


def create_handle(graph: int, default: int | None = None) -> int:
    """Make a condition for one node of `graph`, or of a body in it.

    default: its value at the begin of each launch; without one it has to be set before the node
    is reached (cuGraphConditionalHandleCreate, in the current context).
    """
    value = 0 if default is None else integer(default, "a condition's default", 0, 2**32 - 1)
    context = gate.call(driver.cuCtxGetCurrent)
    flags = 0 if default is None else _ASSIGN_DEFAULT
    found = gate.call(driver.cuGraphConditionalHandleCreate, graph, context, value, flags)
    return int(found)


def add(
    graph: int, dependencies: Sequence[int], handle: int, kind: str, bodies: int = 1
) -> ConditionalNode:
    """Add a conditional node behind `dependencies` (cuGraphAddNode).

    kind: "if" or "while". bodies: 2 gives an "if" its "else", on drivers of CUDA 12.8 and later.
    Raises ConfigError for another kind, DriverError.
    """
    if kind not in _KINDS:
        raise ConfigError(f"conditional node {kind!r}: must be one of {', '.join(_KINDS)}")
    params = driver.CUgraphNodeParams()
    params.type = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
    params.conditional.handle = driver.CUgraphConditionalHandle(handle)
    params.conditional.type = _KINDS[kind]
    params.conditional.size = bodies
    params.conditional.ctx = gate.call(driver.cuCtxGetCurrent)
    behind = [driver.CUgraphNode(node) for node in dependencies]
    plain = _plain_edges(len(behind))
    node = gate.call(compat.graph_add_node, graph, behind, plain, len(behind), params)
    # At once: the array is a view of the struct's.
    made = tuple(int(body) for body in params.conditional.phGraph_out)
    return ConditionalNode(int(node), made)


def add_to_capture(stream: int, handle: int, kind: str, bodies: int = 1) -> ConditionalNode:
    """Add a conditional node to the capture of `stream`, behind the stream's work so far.

    The stream's later work comes behind the node (cuStreamGetCaptureInfo, cuGraphAddNode,
    cuStreamUpdateCaptureDependencies). Raises ConfigError when the stream is not capturing.
    """
    graph, before = _work_so_far(stream)
    made = add(graph, before, handle, kind, bodies)
    _go_on_behind(stream, made.node)
    return made


def hold_place(stream: int) -> int:
    """Add an empty node to the capture of `stream` as `add_to_capture` adds its; return it.

    For a conditional inside of a body: `transplant.copy_nodes` puts it there later.
    """
    graph, before = _work_so_far(stream)
    behind = [driver.CUgraphNode(node) for node in before]
    node = int(gate.call(driver.cuGraphAddEmptyNode, graph, behind, len(behind)))
    _go_on_behind(stream, node)
    return node


def begin_body(stream: int, body: int, mode: str = "thread_local") -> None:
    """Record what `stream` is given into a body graph (cuStreamBeginCaptureToGraph).

    `stream.end_capture` ends it; the graph that it returns is the body again. The stream must be
    another one than those of the capture around it. Hazard: should this capture not end well, the
    driver (580.159) frees the body that its node still names, and the end of the capture around it,
    or the graph's, ends the process. `capture.Conditional` records elsewhere and copies.
    """
    with gate.teardown_lock:
        gate.call(driver.cuStreamBeginCaptureToGraph, stream, body, None, None, 0, mode_of(mode))
        captures.note_begin(stream, mode)


def _work_so_far(stream: int) -> tuple[int, list[int]]:
    """The graph of the stream's capture, and the nodes that its next one would come behind."""
    info: Any = gate.call(compat.stream_get_capture_info, stream)
    if int(info[0]) != 1:
        raise ConfigError(f"stream {stream:#x} is not capturing: it has no graph to add a node to")
    return int(info[2]), [int(node) for node in (info[3] or ())[: int(info[-1])]]


def _go_on_behind(stream: int, node: int) -> None:
    last, plain = [driver.CUgraphNode(node)], _plain_edges(1)
    gate.call(compat.stream_update_dependencies, stream, last, plain, 1, _SET_DEPENDENCIES)


def _plain_edges(count: int) -> list[driver.CUgraphEdgeData]:
    # None would be all plain edges too, but the bindings (12.9) count the list before they ask.
    return [driver.CUgraphEdgeData() for _ in range(count)]
