"""Verbs of streams that write and wait for words in memory, and of nodes that do. Each returns
(code, extra).

Words are named as `World.address` names memory; `wN` are words of pinned memory that begin as 0.
Operations of a batch are joined by `+`: `write:w0:5`, `wait_eq:w0:5`, `write64:w0:5`,
`wait64_geq:w0:5`, `barrier`, `flush`, `kind9` for an unknown one; `nothing` is an empty batch.
"""

from __future__ import annotations

import ctypes
from typing import Any

from cuda.bindings import driver as cu

from tests.traces import proc
from tests.traces.verbs_build import node_at
from tests.traces.world import NamedNode, World

Answer = tuple[int, Any]
_CONDITIONS = {"geq": 0, "eq": 1, "and": 2, "nor": 3}
_KINDS = {"wait": 1, "write": 2, "flush": 3, "wait64": 4, "write64": 5, "barrier": 6}
_NAMES = {number: name for name, number in _KINDS.items()}


class _Operation(ctypes.Structure):
    """CUstreamBatchMemOpParams: 48 bytes, the form of its waits and writes."""

    _fields_ = (
        ("operation", ctypes.c_uint),
        ("alone", ctypes.c_uint),  # the flags of a barrier or a flush
        ("address", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
        ("flags", ctypes.c_uint),
        ("rest", ctypes.c_uint64 * 2),
    )


class _NodeParams(ctypes.Structure):
    """CUDA_BATCH_MEM_OP_NODE_PARAMS."""

    _fields_ = (
        ("context", ctypes.c_void_p),
        ("count", ctypes.c_uint),
        ("operations", ctypes.POINTER(_Operation)),
        ("flags", ctypes.c_uint),
    )


def _operation(world: World, text: str) -> _Operation:
    kind, *rest = text.split(":")
    if kind in ("barrier", "flush"):
        return _Operation(_KINDS[kind], int(rest[0]) if rest else 0)
    if kind.startswith("kind"):
        return _Operation(int(kind.removeprefix("kind")))
    name, _, condition = kind.partition("_")
    flags = _CONDITIONS[condition] if condition else 0
    return _Operation(_KINDS[name], 0, world.address(rest[0]), int(rest[1]), flags)


def _operations(world: World, text: str) -> ctypes.Array[_Operation]:
    parts = [] if text == "nothing" else text.split("+")
    return (_Operation * len(parts))(*(_operation(world, part) for part in parts))


def _params(world: World, text: str, context: str = "home") -> _NodeParams:
    operations = _operations(world, text)
    world.keep.append(operations)
    held = world.contexts[context] if context != "none" else 0
    return _NodeParams(held, len(operations), operations, 0)


def word(world: World, name: str) -> Answer:
    """Read a word of pinned memory (no call); extra: its value."""
    return 0, ctypes.c_uint64.from_address(world.address(name)).value


def poke(world: World, name: str, value: str) -> Answer:
    """Store a word of pinned memory (no call)."""
    ctypes.c_uint64.from_address(world.address(name)).value = int(value)
    return 0, None


def write_value(world: World, stream: str, name: str, value: str, bits: str = "32",
                flags: str = "0", offset: str = "0") -> Answer:  # fmt: skip
    """cuStreamWriteValue32 or cuStreamWriteValue64."""
    held = proc.pointer(world.stream(stream)), proc.size(world.address(name) + int(offset))
    number = int(value) if bits == "32" else proc.size(int(value))
    return proc.call(f"cuStreamWriteValue{bits}", 11070, *held, number, int(flags)), None


def wait_value(world: World, stream: str, name: str, value: str, condition: str = "geq",
               bits: str = "32", offset: str = "0") -> Answer:  # fmt: skip
    """cuStreamWaitValue32 or cuStreamWaitValue64; a number as condition: the flags."""
    held = proc.pointer(world.stream(stream)), proc.size(world.address(name) + int(offset))
    number = int(value) if bits == "32" else proc.size(int(value))
    flags = _CONDITIONS[condition] if condition in _CONDITIONS else int(condition)
    return proc.call(f"cuStreamWaitValue{bits}", 11070, *held, number, flags), None


def batch(world: World, stream: str, operations: str, flags: str = "0") -> Answer:
    """cuStreamBatchMemOp."""
    held = _operations(world, operations)
    handle = proc.pointer(world.stream(stream))
    return proc.call("cuStreamBatchMemOp", 11070, handle, len(held), held, int(flags)), None


def add_batch(world: World, name: str, graph: str, operations: str, context: str = "home",
              *before: str) -> Answer:  # fmt: skip
    """cuGraphAddBatchMemOpNode, in a context."""
    params = _params(world, operations, context)
    handles = [int(world.nodes[one].node) for one in before]
    nodes = (ctypes.c_void_p * len(handles))(*handles)
    made = ctypes.c_void_p()
    code = proc.call(
        "cuGraphAddBatchMemOpNode", 11070, ctypes.byref(made), proc.pointer(world.graphs[graph]),
        nodes, proc.size(len(nodes)), ctypes.byref(params),
    )  # fmt: skip
    if code == 0:
        node = cu.CUgraphNode(made.value or 0)
        world.nodes[name] = NamedNode(node, int(world.graphs[graph]))
    return code, None


def batch_get(world: World, graph: str, place: str) -> Answer:
    """cuGraphBatchMemOpNodeGetParams; extra: kinds with value and flags, and the context."""
    node = proc.pointer(node_at(world, graph, place, "batch_mem_op"))
    params = _NodeParams()
    code = proc.call("cuGraphBatchMemOpNodeGetParams", 11070, node, ctypes.byref(params))
    if code:
        return code, None
    told = [params.operations[n] for n in range(params.count)]
    found = [[_NAMES.get(one.operation, "?"), one.value, one.flags] for one in told]
    return code, {"operations": found, "context": world.context_name(params.context or 0)}


def batch_set(world: World, graph: str, place: str, operations: str, context: str = "home"
              ) -> Answer:  # fmt: skip
    """cuGraphBatchMemOpNodeSetParams."""
    node = proc.pointer(node_at(world, graph, place, "batch_mem_op"))
    params = _params(world, operations, context)
    return proc.call("cuGraphBatchMemOpNodeSetParams", 11070, node, ctypes.byref(params)), None


def exec_batch(world: World, name: str, graph: str, place: str, operations: str,
               context: str = "home") -> Answer:  # fmt: skip
    """cuGraphExecBatchMemOpNodeSetParams."""
    node = proc.pointer(node_at(world, graph, place, "batch_mem_op"))
    held = proc.pointer(world.execs[name]), node, ctypes.byref(_params(world, operations, context))
    return proc.call("cuGraphExecBatchMemOpNodeSetParams", 11070, *held), None


class _AnyParams(ctypes.Structure):
    """CUgraphNodeParams of such a node: 256 bytes."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("head", ctypes.c_int * 3),
        ("batch", _NodeParams),
        ("rest", ctypes.c_ubyte * (256 - 16 - ctypes.sizeof(_NodeParams))),
    )


def _any_params(world: World, operations: str) -> Any:
    return ctypes.byref(_AnyParams(12, batch=_params(world, operations)))


def add_any_batch(world: World, name: str, graph: str, operations: str) -> Answer:
    """cuGraphAddNode of a batch of memory operations."""
    made = ctypes.c_void_p()
    held = ctypes.byref(made), proc.pointer(world.graphs[graph]), None, proc.size(0)
    code = proc.call("cuGraphAddNode", 12020, *held, _any_params(world, operations))
    if code == 0:
        node = cu.CUgraphNode(made.value or 0)
        world.nodes[name] = NamedNode(node, int(world.graphs[graph]))
    return code, None


def any_batch(world: World, name: str, operations: str) -> Answer:
    """cuGraphNodeSetParams of a batch of memory operations."""
    held = proc.pointer(world.nodes[name].node), _any_params(world, operations)
    return proc.call("cuGraphNodeSetParams", 12020, *held), None


def exec_any_batch(world: World, executable: str, name: str, operations: str) -> Answer:
    """cuGraphExecNodeSetParams of a batch of memory operations."""
    held = proc.pointer(world.execs[executable]), proc.pointer(world.nodes[name].node)
    return proc.call("cuGraphExecNodeSetParams", 12020, *held, _any_params(world, operations)), None


_FUNCTIONS = (
    word, poke, write_value, wait_value, batch, add_batch, batch_get, batch_set, exec_batch,
    add_any_batch, any_batch, exec_any_batch,
)  # fmt: skip
VERBS = {function.__name__: function for function in _FUNCTIONS}
