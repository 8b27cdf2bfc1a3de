"""Parameters of single nodes: read back, set in a graph, set in an executable."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from cuda.bindings import driver as cu

from lowgraph.driver import graph
from tests.hostdev.graphs.kit import COUNT, Kit, answer_of, launches, must


def test_captured_arguments_are_read_back(kit: Kit) -> None:
    x = kit.vector()
    node = graph.nodes(kit.capture(lambda: kit.launch("add", x, 1.5)))[0]
    params = graph.kernel_params(node)
    assert params.function == kit.functions["add"] == graph.function_of(node)
    assert (params.grid, params.block, params.shared) == ((3, 1, 1), (128, 1, 1), 0)
    assert [int.from_bytes(params.args[0], "little"), int.from_bytes(params.args[2], "little")] == [
        x.address,
        COUNT,
    ]
    assert ctypes.c_float.from_buffer_copy(params.args[1]).value == 1.5


@pytest.mark.host  # a GPU's driver answered 0 and read what had been freed
def test_a_kernel_whose_module_is_gone_has_no_parameters_to_read(kit: Kit, image: bytes) -> None:
    """Where they lie in the arguments stood in the module; the node beside it is as it was."""
    x = kit.vector()
    gone = must(cu.cuModuleLoadData(image))
    kept, kit.functions["add"] = kit.functions["add"], must(cu.cuModuleGetFunction(gone, b"add"))

    def body() -> None:
        kit.launch("add", x, 1.5)
        must(cu.cuMemsetD32Async(x.address, 0, COUNT, kit.stream))

    kernel, fill = graph.nodes(kit.capture(body))
    kit.functions["add"] = kept
    must(cu.cuModuleUnload(gone))
    assert answer_of(cu.cuGraphKernelNodeGetParams(kernel)) == 400
    assert int(must(cu.cuGraphMemsetNodeGetParams(fill)).dst) == x.address


def test_each_kind_of_node_takes_new_parameters(kit: Kit) -> None:
    x, y, z = kit.vector(1.0), kit.vector(2.0), kit.vector()

    def body() -> None:
        must(cu.cuMemsetD32Async(z.address, 0, COUNT, kit.stream))
        must(cu.cuMemcpyDtoDAsync(x.address, y.address, 4 * COUNT, kit.stream))
        kit.launch("add", x, 1.0)

    captured = kit.capture(body)
    fill, copied, kernel = graph.nodes(captured)
    executable = kit.executable(captured)
    set_value = must(cu.cuGraphMemsetNodeGetParams(fill))
    set_value.value = 0x40400000  # 3.0
    must(cu.cuGraphExecMemsetNodeSetParams(executable, fill, set_value, 0))
    from_z = must(cu.cuGraphMemcpyNodeGetParams(copied))
    from_z.srcDevice = z.address
    must(cu.cuGraphExecMemcpyNodeSetParams(executable, copied, from_z, 0))
    params, kept = kit.node_params("scale", x, 4.0)
    must(cu.cuGraphExecKernelNodeSetParams(executable, kernel, params))
    assert kept
    launches(executable, kit.stream)
    assert (z.value(), x.value()) == (3.0, 12.0)
    launches(kit.executable(captured), kit.stream)
    assert (z.value(), x.value()) == (0.0, 3.0), "the graph itself is as it was captured"


def test_a_graph_node_takes_new_parameters_for_later_executables(kit: Kit) -> None:
    x = kit.vector()
    captured = kit.kernels("add", on=x)
    before = kit.executable(captured)
    params, kept = kit.node_params("add", x, 100.0)
    must(cu.cuGraphKernelNodeSetParams(graph.nodes(captured)[0], params))
    assert kept
    launches(before, kit.stream)
    launches(kit.executable(captured), kit.stream)
    assert x.value() == 102.0


def test_a_foreign_node_is_refused(kit: Kit) -> None:
    x = kit.vector()
    captured, foreign = kit.kernels("add", on=x), kit.kernels("add", on=x)
    executable = kit.executable(captured)
    params, _kept = kit.node_params("add", x, 5.0)
    node = graph.nodes(foreign)[0]
    assert answer_of(cu.cuGraphExecKernelNodeSetParams(executable, node, params)) == 1


def test_a_disabled_node_does_not_run(kit: Kit) -> None:
    x = kit.vector(1.0)
    captured = kit.kernels("add", "scale", on=x)
    executable = kit.executable(captured)
    node = graph.nodes(captured)[0]
    must(cu.cuGraphNodeSetEnabled(executable, node, 0))
    assert must(cu.cuGraphNodeGetEnabled(executable, node)) == 0
    launches(executable, kit.stream)
    assert x.value() == 2.0
    must(cu.cuGraphNodeSetEnabled(executable, node, 1))
    launches(executable, kit.stream)
    assert x.value() == 8.0


def _priority_of(node: Any) -> int:
    which = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PRIORITY
    return int(must(cu.cuGraphKernelNodeGetAttribute(node, which)).priority)


@pytest.mark.parametrize("given", [None, -2])
@pytest.mark.parametrize("rank", [0, -1, -5])
def test_a_captured_kernel_has_its_streams_priority(kit: Kit, rank: int, given: int | None) -> None:
    """Unless the launch has one of its own."""
    origin = must(cu.cuStreamCreateWithPriority(1, rank))
    config = cu.CUlaunchConfig()
    config.gridDimX = config.gridDimY = config.gridDimZ = 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 32, 1, 1
    config.hStream = origin
    if given is not None:
        attribute = cu.CUlaunchAttribute()
        attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PRIORITY
        attribute.value.priority = given
        config.attrs, config.numAttrs = [attribute], 1
    values = (ctypes.c_uint64(0), ctypes.c_float(1.0), ctypes.c_int(0))
    pointers = (ctypes.c_void_p * 3)(*[ctypes.addressof(value) for value in values])
    must(cu.cuStreamBeginCapture(origin, cu.CUstreamCaptureMode(1)))
    function = cu.CUfunction(kit.functions["add"])
    must(cu.cuLaunchKernelEx(config, function, ctypes.addressof(pointers), 0))
    captured = must(cu.cuStreamEndCapture(origin))
    (node,) = must(cu.cuGraphGetNodes(captured, 1))
    assert _priority_of(node) == (rank if given is None else given)
    must(cu.cuGraphDestroy(captured))
    must(cu.cuStreamDestroy(origin))
