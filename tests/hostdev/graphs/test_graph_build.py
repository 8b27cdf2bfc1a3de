"""Graphs built node by node, child graphs, clones, memory nodes, user objects."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest
from cuda.bindings import driver as cu

from lowgraph.driver import entry, graph
from tests.hostdev.graphs.kit import COUNT, Kit, Vector, answer_of, launches, must, shape_of

AUTO_FREE = 1  # CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH
KERNEL_NODE_PARAMS = 4  # CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS


def add_kernel(kit: Kit, owner: Any, before: list[Any], name: str, x: Vector, value: float) -> Any:
    params, kept = kit.node_params(name, x, value)
    node = must(cu.cuGraphAddKernelNode(owner, before, len(before), params))
    assert kept, "the driver copies the values at the call"
    return node


def handles(nodes: Any) -> list[int]:
    return [int(node) for node in nodes]


def test_a_diamond_node_by_node(kit: Kit) -> None:
    x, y = kit.vector(1.0), kit.vector(1.0)
    owner = kit.new_graph()
    top = must(cu.cuGraphAddEmptyNode(owner, [], 0))
    left = add_kernel(kit, owner, [top], "add", x, 2.0)
    right = add_kernel(kit, owner, [top], "scale", y, 5.0)
    params, kept = kit.node_params("sum", x, x, y)
    bottom = must(cu.cuGraphAddKernelNode(owner, [left, right], 2, params))
    assert kept
    assert shape_of(owner) == (
        ["empty", "kernel", "kernel", "kernel"],
        [(0, 1), (0, 2), (1, 3), (2, 3)],
    )
    assert handles(cu.cuGraphGetRootNodes(owner, 4)[1][:1]) == handles([top])
    assert handles(cu.cuGraphNodeGetDependencies(bottom, 2)[1]) == handles([left, right])
    assert handles(cu.cuGraphNodeGetDependentNodes(top, 2)[1]) == handles([left, right])
    launches(kit.executable(owner), kit.stream)
    assert x.value() == 8.0


def test_dependencies_are_added_and_removed(kit: Kit) -> None:
    x = kit.vector(1.0)
    owner = kit.new_graph()
    later = add_kernel(kit, owner, [], "scale", x, 10.0)
    sooner = add_kernel(kit, owner, [], "add", x, 1.0)
    add_edges, remove_edges = edge_calls()
    assert add_edges(owner, sooner, later) == 0
    assert add_edges(owner, sooner, later) == 1, "the edge exists"
    assert add_edges(owner, later, later) == 1, "a node after itself"
    assert add_edges(owner, later, sooner) == 0, "a cycle may be built"
    assert answer_of(cu.cuGraphInstantiate(owner, 0)) == 1, "but not instantiated"
    assert remove_edges(owner, later, sooner) == 0
    launches(kit.executable(owner), kit.stream)
    assert x.value() == 20.0
    assert remove_edges(owner, sooner, later) == 0
    assert remove_edges(owner, sooner, later) == 1
    assert shape_of(owner)[1] == []
    must(cu.cuGraphDestroyNode(sooner))
    assert shape_of(owner) == (["kernel"], [])


def edge_calls() -> tuple[Any, Any]:
    """Return add(graph, from, to) and remove, whose signatures differ between the bindings."""
    extra = [[cu.CUgraphEdgeData()]] if int(cu.CUDA_VERSION) >= 13000 else []

    def add(owner: Any, start: Any, end: Any) -> int:
        return answer_of(cu.cuGraphAddDependencies(owner, [start], [end], *extra, 1))

    def remove(owner: Any, start: Any, end: Any) -> int:
        return answer_of(cu.cuGraphRemoveDependencies(owner, [start], [end], *extra, 1))

    return add, remove


def test_a_bad_kernel_node_is_refused(kit: Kit) -> None:
    owner = kit.new_graph()
    params, _kept = kit.node_params("add", kit.vector(), 1.0)
    params.blockDimX = 4096
    assert answer_of(cu.cuGraphAddKernelNode(owner, [], 0, params)) == 1
    assert graph.nodes(owner) == []


# ---- Child graphs and clones ----
def test_a_child_graph_runs_and_takes_new_parameters(kit: Kit) -> None:
    x = kit.vector(1.0)
    child = kit.kernels("scale", on=x)
    owner = kit.new_graph()
    first = add_kernel(kit, owner, [], "add", x, 3.0)
    node = must(cu.cuGraphAddChildGraphNode(owner, [first], 1, child))
    graph.destroy(child)  # the node has a copy
    executable = kit.executable(owner)
    launches(executable, kit.stream)
    assert x.value() == 8.0
    inner = graph.nodes(int(must(cu.cuGraphChildGraphNodeGetGraph(node))))[0]
    params, kept = kit.node_params("scale", x, 0.5)
    must(cu.cuGraphExecKernelNodeSetParams(executable, inner, params))
    assert kept
    launches(executable, kit.stream)
    assert x.value() == 5.5


def test_a_child_graph_is_updated_with_its_parent(kit: Kit) -> None:
    x = kit.vector(1.0)
    owners = []
    for value in (2.0, 7.0):
        owner = kit.new_graph()
        child = kit.capture(lambda value=value: kit.launch("scale", x, value))
        must(cu.cuGraphAddChildGraphNode(owner, [], 0, child))
        owners.append(owner)
    executable = kit.executable(owners[0])
    assert graph.update(executable, owners[1]).ok
    launches(executable, kit.stream)
    assert x.value() == 7.0


def test_a_clone_is_apart_from_its_original(kit: Kit) -> None:
    x = kit.vector()
    original = kit.kernels("add", "scale", on=x)
    clone = kit.keep(int(must(cu.cuGraphClone(original))))
    assert shape_of(clone) == shape_of(original)
    node = graph.nodes(original)[0]
    twin = must(cu.cuGraphNodeFindInClone(node, clone))
    assert int(twin) == graph.nodes(clone)[0]
    params, kept = kit.node_params("add", x, 50.0)
    must(cu.cuGraphKernelNodeSetParams(twin, params))
    assert kept
    launches(kit.executable(original), kit.stream)
    assert x.value() == 4.0
    assert answer_of(cu.cuGraphNodeFindInClone(twin, original)) == 1


# ---- Memory of graphs ----
def capture_allocation(kit: Kit, x: Vector, freed: bool) -> tuple[int, int]:
    """Capture: allocate, fill with 3.0, copy to x, and free or not. Returns graph, address."""
    addresses: list[int] = []

    def body() -> None:
        address = int(must(cu.cuMemAllocAsync(4 * COUNT, kit.stream)))
        addresses.append(address)
        must(cu.cuMemsetD32Async(address, 0x40400000, COUNT, kit.stream))
        must(cu.cuMemcpyDtoDAsync(x.address, address, 4 * COUNT, kit.stream))
        if freed:
            must(cu.cuMemFreeAsync(address, kit.stream))

    return kit.capture(body), addresses[0]


def test_memory_that_the_graph_frees(kit: Kit) -> None:
    x = kit.vector()
    captured, _ = capture_allocation(kit, x, freed=True)
    assert shape_of(captured)[0] == ["mem_alloc", "memset", "memcpy", "mem_free"]
    launches(kit.executable(captured), kit.stream, times=3)
    assert x.value() == 3.0


def test_memory_that_stays_blocks_the_next_launch(kit: Kit) -> None:
    captured, address = capture_allocation(kit, kit.vector(), freed=False)
    executable = kit.executable(captured)
    launches(executable, kit.stream)
    assert answer_of(cu.cuGraphLaunch(executable, kit.stream)) == 1
    must(cu.cuMemFreeAsync(address, kit.stream))
    launches(executable, kit.stream)
    must(cu.cuCtxSynchronize())


def test_memory_that_each_launch_frees_first(kit: Kit) -> None:
    x = kit.vector()
    captured, _ = capture_allocation(kit, x, freed=False)
    executable = kit.executable(captured, AUTO_FREE)
    launches(executable, kit.stream, times=3)
    assert x.value() == 3.0


# ---- What a graph keeps alive, and what it looks like ----
@pytest.mark.host  # a GPU's driver may call the destructor later
def test_a_user_object_lives_as_long_as_graph_and_executable(kit: Kit) -> None:
    destroyed: list[int] = []
    function = entry.HOST_FUNCTION(destroyed.append)
    address = ctypes.cast(function, ctypes.c_void_p).value
    held = must(cu.cuUserObjectCreate(5, cu.CUhostFn(address), 1, 1))
    captured = kit.kernels("add", on=kit.vector())
    must(cu.cuGraphRetainUserObject(captured, held, 1, 1))  # CU_GRAPH_USER_OBJECT_MOVE
    executable = kit.executable(captured)
    graph.destroy(captured)
    assert destroyed == []
    graph.exec_destroy(executable)
    assert destroyed == [5]


def test_a_graph_is_drawn(kit: Kit, tmp_path: Path) -> None:
    captured = kit.kernels("add", "scale", on=kit.vector())
    path = tmp_path / "graph.dot"
    must(cu.cuGraphDebugDotPrint(captured, str(path).encode(), 0))
    text = path.read_text(encoding="utf-8")
    assert text.startswith("digraph")
    assert "->" in text


@pytest.mark.host
def test_a_picture_says_how_kernels_are_launched_if_asked(kit: Kit, tmp_path: Path) -> None:
    captured = kit.kernels("add", "scale", on=kit.vector())
    path = tmp_path / "graph.dot"
    must(cu.cuGraphDebugDotPrint(captured, str(path).encode(), 0))
    assert "grid" not in path.read_text(encoding="utf-8")
    must(cu.cuGraphDebugDotPrint(captured, str(path).encode(), KERNEL_NODE_PARAMS))
    assert "add\\ngrid (3, 1, 1), block (128, 1, 1)" in path.read_text(encoding="utf-8")


@pytest.mark.host
def test_a_picture_shows_what_a_child_graph_holds(kit: Kit, tmp_path: Path) -> None:
    """Two kernels inside, whose numbers the outer graph's nodes have too."""
    inside, outside = kit.kernels("add", "scale", on=kit.vector()), must(cu.cuGraphCreate(0))
    before = must(cu.cuGraphAddEmptyNode(outside, None, 0))
    must(cu.cuGraphAddChildGraphNode(outside, [before], 1, inside))
    path = tmp_path / "graph.dot"
    must(cu.cuGraphDebugDotPrint(outside, str(path).encode(), 0))
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines[1:] == [
        'n0 [label="0: empty"];',
        'n1 [label="1: graph of 2 nodes"];',
        "n0 -> n1;",
        "subgraph cluster_n1_0_ {",
        'label="in 1: graph of 2 nodes";',
        'n1_0_0 [label="0: add"];',
        'n1_0_1 [label="1: scale"];',
        "n1_0_0 -> n1_0_1;",
        "}",
        "}",
    ]
    graph.destroy(outside)
