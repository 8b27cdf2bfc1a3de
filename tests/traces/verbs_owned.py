"""Verbs of objects that belong to a context, by their names. Each returns (code, extra)."""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver as cu

from tests.traces.verbs_build import node_at
from tests.traces.world import NamedNode, World, attempt

Answer = tuple[int, Any]
SIZE = 64


def timer_create(world: World, name: str) -> Answer:
    """cuEventCreate with timing."""
    code, handle = attempt(cu.cuEventCreate, 0)
    if code == 0:
        world.events[name] = handle
    return code, None


def take_function(world: World, name: str, module: str, kernel: str) -> Answer:
    """cuModuleGetFunction; launches call it by the name."""
    code, handle = attempt(cu.cuModuleGetFunction, world.modules[module], kernel.encode())
    if code == 0:
        world.functions[name] = handle
    return code, None


def stream_ctx(world: World, stream: str) -> Answer:
    """cuStreamGetCtx; extra: which."""
    code, handle = attempt(cu.cuStreamGetCtx, world.stream(stream))
    return code, world.context_name(handle) if code == 0 else None


def pointer_ctx(world: World, memory: str) -> Answer:
    """cuPointerGetAttribute of the context; extra: which."""
    which = cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_CONTEXT
    code, handle = attempt(cu.cuPointerGetAttribute, which, world.address(memory))
    return code, world.context_name(handle) if code == 0 else None


def fill_of(world: World, stream: str, memory: str, value: str = "0") -> Answer:
    """cuMemsetD8Async of memory by its name."""
    address = world.address(memory)
    arguments = (address, int(value), SIZE, world.stream(stream))
    return attempt(cu.cuMemsetD8Async, *arguments)[0], None


def fill_now(world: World, memory: str) -> Answer:
    """cuMemsetD8 of memory by its name."""
    return attempt(cu.cuMemsetD8, world.address(memory), 0, SIZE)[0], None


def copy_of(world: World, stream: str, target: str, source: str) -> Answer:
    """cuMemcpyAsync between memory by its names."""
    ends = world.address(target), world.address(source)
    return attempt(cu.cuMemcpyAsync, *ends, SIZE, world.stream(stream))[0], None


def copy_now(world: World, target: str, source: str) -> Answer:
    """cuMemcpy between memory by its names."""
    ends = world.address(target), world.address(source)
    return attempt(cu.cuMemcpy, *ends, SIZE)[0], None


def copy_peer(world: World, stream: str, target: str, its: str, source: str, theirs: str) -> Answer:
    """cuMemcpyPeerAsync: each end with its context."""
    ends = (world.address(target), world.context(its), world.address(source),
            world.context(theirs))  # fmt: skip
    return attempt(cu.cuMemcpyPeerAsync, *ends, SIZE, world.stream(stream))[0], None


# ---- Nodes ----
def _kernel_params(world: World, kernel: str) -> Any:
    params = cu.CUDA_KERNEL_NODE_PARAMS()
    params.func = world.functions[kernel]
    params.gridDimX = params.gridDimY = params.gridDimZ = 1
    params.blockDimX, params.blockDimY, params.blockDimZ = 32, 1, 1
    params.kernelParams = world.pack_buffers()
    return params


def _fill_params(world: World, memory: str) -> Any:
    params = cu.CUDA_MEMSET_NODE_PARAMS()
    params.dst, params.value = world.address(memory), 0
    params.elementSize, params.width, params.height = 1, SIZE, 1
    return params


def _copy_params(world: World, target: str, source: str) -> Any:
    params = cu.CUDA_MEMCPY3D()
    params.dstMemoryType = params.srcMemoryType = cu.CUmemorytype.CU_MEMORYTYPE_UNIFIED
    params.dstDevice, params.srcDevice = world.address(target), world.address(source)
    params.WidthInBytes, params.Height, params.Depth = SIZE, 1, 1
    return params


def _add(world: World, name: str, graph: str, before: tuple[str, ...], call: Any,
         *params: Any) -> Answer:  # fmt: skip
    nodes = [world.nodes[one].node for one in before]
    code, node = attempt(call, world.graphs[graph], nodes or None, len(nodes), *params)
    if code == 0:
        world.nodes[name] = NamedNode(node, int(world.graphs[graph]))
    return code, None


def add_kernel_of(world: World, name: str, graph: str, kernel: str, *before: str) -> Answer:
    """cuGraphAddKernelNode of a kernel by its name."""
    params = _kernel_params(world, kernel)
    return _add(world, name, graph, before, cu.cuGraphAddKernelNode, params)


def node_kernel_of(world: World, name: str, kernel: str) -> Answer:
    """cuGraphKernelNodeSetParams of a kernel by its name."""
    params = _kernel_params(world, kernel)
    return attempt(cu.cuGraphKernelNodeSetParams, world.nodes[name].node, params)[0], None


def exec_kernel_of(world: World, executable: str, name: str, kernel: str) -> Answer:
    """cuGraphExecKernelNodeSetParams of a kernel by its name."""
    held = world.execs[executable], world.nodes[name].node, _kernel_params(world, kernel)
    return attempt(cu.cuGraphExecKernelNodeSetParams, *held)[0], None


def kernel_ctx(world: World, graph: str, place: str) -> Answer:
    """cuGraphKernelNodeGetParams; extra: which context it tells of."""
    node = node_at(world, graph, place, "kernel")
    code, params = attempt(cu.cuGraphKernelNodeGetParams, node)
    return code, world.context_name(params.ctx) if code == 0 else None


def add_fill_of(world: World, name: str, graph: str, memory: str, context: str,
                *before: str) -> Answer:  # fmt: skip
    """cuGraphAddMemsetNode of memory by its name, in a context."""
    params = _fill_params(world, memory), world.context(context)
    return _add(world, name, graph, before, cu.cuGraphAddMemsetNode, *params)


def exec_fill_of(world: World, executable: str, name: str, memory: str, context: str) -> Answer:
    """cuGraphExecMemsetNodeSetParams of memory by its name, in a context."""
    held = world.execs[executable], world.nodes[name].node, _fill_params(world, memory)
    return attempt(cu.cuGraphExecMemsetNodeSetParams, *held, world.context(context))[0], None


def add_copy_of(world: World, name: str, graph: str, target: str, source: str, context: str,
                *before: str) -> Answer:  # fmt: skip
    """cuGraphAddMemcpyNode between memory by its names, in a context."""
    params = _copy_params(world, target, source), world.context(context)
    return _add(world, name, graph, before, cu.cuGraphAddMemcpyNode, *params)


def exec_copy_of(world: World, executable: str, name: str, target: str, source: str,
                 context: str) -> Answer:  # fmt: skip
    """cuGraphExecMemcpyNodeSetParams between memory by its names, in a context."""
    held = world.execs[executable], world.nodes[name].node, _copy_params(world, target, source)
    return attempt(cu.cuGraphExecMemcpyNodeSetParams, *held, world.context(context))[0], None


def handle_in(world: World, graph: str, context: str) -> Answer:
    """cuGraphConditionalHandleCreate in a context."""
    held = world.graphs[graph], world.context(context), 0, 0
    return attempt(cu.cuGraphConditionalHandleCreate, *held)[0], None


_FUNCTIONS = (
    timer_create, take_function, stream_ctx, pointer_ctx, fill_of, fill_now, copy_of, copy_now,
    copy_peer, add_kernel_of, node_kernel_of, exec_kernel_of, kernel_ctx, add_fill_of,
    exec_fill_of, add_copy_of, exec_copy_of, handle_in,
)  # fmt: skip
VERBS = {function.__name__: function for function in _FUNCTIONS}
