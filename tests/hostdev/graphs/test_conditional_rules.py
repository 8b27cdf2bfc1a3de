"""What conditional nodes and their bodies may not be: each refusal with the driver's code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cuda.bindings import driver as cu

from lowgraph.driver import conditional, entry, event, graph, stream
from lowgraph.errors import ContextPoisoned
from tests.hostdev.graphs.conditional_kit import ConditionalKit, raw_node
from tests.support.codes import code_of
from tests.support.process import run_python
from tests.support.rig import Rig

INVALID_VALUE, ILLEGAL_STATE, NOT_SUPPORTED = 1, 401, 801
UNRECORDED = pytest.mark.host  # by cuda.h and the manual; no GPU has been asked yet
MEASURED = ("alloc", "host function", "external event record")


@pytest.fixture
def kit(rig: Rig) -> Iterator[ConditionalKit]:
    made = ConditionalKit(rig)
    yield made
    made.close()


def _host_function(kit: ConditionalKit, s: int) -> object:
    callback = entry.HOST_FUNCTION(lambda data: None)
    entry.launch_host_function(s, int(ctypes.cast(callback, ctypes.c_void_p).value or 0))
    return callback


def _alloc(kit: ConditionalKit, s: int) -> object:
    assert not cu.cuMemAllocAsync(256, s)[0]
    return None


def _external_record(kit: ConditionalKit, s: int) -> object:
    made = event.create()
    assert not cu.cuEventRecordWithFlags(made, s, 1)[0]
    return made


def _pageable(kit: ConditionalKit, s: int) -> object:
    source = (ctypes.c_char * 4)()
    assert not cu.cuMemcpyHtoDAsync(kit.target.address, ctypes.addressof(source), 4, s)[0]
    return source


ILLEGAL: dict[str, Callable[[ConditionalKit, int], object]] = {
    "alloc": _alloc,
    "host function": _host_function,
    "external event record": _external_record,
    "pageable copy": _pageable,
}


@pytest.mark.parametrize(
    "kind",
    [
        *MEASURED,
        *(pytest.param(kind, marks=UNRECORDED) for kind in ILLEGAL if kind not in MEASURED),
    ],
)
def test_it_is_taken_at_capture_and_refused_at_instantiate(kit: ConditionalKit, kind: str) -> None:
    node = conditional.add(kit.graph, [], conditional.create_handle(kit.graph, 1), "if")
    kept: list[Any] = []
    kit.record(node.bodies[0], lambda s: kept.append(ILLEGAL[kind](kit, s)))
    assert graph.count_nodes(node.bodies[0]) == 1
    assert code_of(kit.ready) == INVALID_VALUE
    if kind == "external event record":
        event.destroy(kept[0])


@UNRECORDED
def test_so_is_it_in_a_body_of_a_body(kit: ConditionalKit) -> None:
    outer = conditional.add(kit.graph, [], conditional.create_handle(kit.graph, 1), "if")
    handle = conditional.create_handle(kit.graph, 1)  # of the graph around it
    inner = conditional.add(outer.bodies[0], [], handle, "if")
    kept: list[Any] = []
    kit.record(inner.bodies[0], lambda s: kept.append(_host_function(kit, s)))
    assert code_of(kit.ready) == INVALID_VALUE


def test_an_empty_body_is_good(kit: ConditionalKit) -> None:
    conditional.add(kit.graph, [], conditional.create_handle(kit.graph, 1), "if")
    kit.run(kit.ready())


@UNRECORDED
def test_sizes_types_and_contexts(kit: ConditionalKit) -> None:
    def added(**fields: Any) -> int:
        return raw_node(kit.graph, conditional.create_handle(kit.graph, 1), **fields)

    assert [added(type=0, size=size) for size in (0, 1, 2, 3)] == [1, 0, 0, 1]
    assert [added(type=1, size=size) for size in (0, 1, 2)] == [1, 0, 1]
    assert [added(type=2, size=size) for size in (0, 1, 5)] == [1, 0, 0]
    assert added(ctx=cu.CUcontext(0)) == INVALID_VALUE


@UNRECORDED
def test_handles(kit: ConditionalKit) -> None:
    context = cu.cuCtxGetCurrent()[1]
    assert int(cu.cuGraphConditionalHandleCreate(kit.graph, context, 1, 2)[0]) == INVALID_VALUE
    handle = conditional.create_handle(kit.graph, 1)
    assert raw_node(kit.new_graph(), handle) == INVALID_VALUE, "of another graph"
    assert raw_node(kit.graph, handle) == 0
    assert raw_node(kit.graph, handle) == INVALID_VALUE, "it has a node"
    assert raw_node(kit.graph, 1 << 40) == INVALID_VALUE, "there is none"
    conditional.create_handle(kit.graph, 1)
    params = cu.CUDA_GRAPH_INSTANTIATE_PARAMS()
    code = int(cu.cuGraphInstantiateWithParams(kit.graph, params)[0])
    unused = cu.CUgraphInstantiateResult.CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED
    assert (code, params.result_out) == (INVALID_VALUE, unused)


@UNRECORDED
def test_no_clone_no_child_one_executable(kit: ConditionalKit) -> None:
    kit.loop(kit.number(), kit.number(2))
    assert int(cu.cuGraphClone(kit.graph)[0]) == NOT_SUPPORTED
    parent = kit.new_graph()
    assert int(cu.cuGraphAddChildGraphNode(parent, [], 0, kit.graph)[0]) == NOT_SUPPORTED
    first = kit.ready()
    assert code_of(kit.ready) == NOT_SUPPORTED
    kit.destroy_executable(first)
    kit.run(kit.ready())


@UNRECORDED
def test_parameters_of_the_node_cannot_be_set_those_of_its_body_can(kit: ConditionalKit) -> None:
    handle, made = kit.loop(kit.number(), kit.number(2))
    executable = kit.ready()
    params = cu.CUgraphNodeParams()
    params.type = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
    params.conditional.handle = cu.CUgraphConditionalHandle(handle)
    assert int(cu.cuGraphNodeSetParams(made.node, params)[0]) == NOT_SUPPORTED
    assert int(cu.cuGraphExecNodeSetParams(executable, made.node, params)[0]) == NOT_SUPPORTED
    inner = graph.nodes(made.bodies[0])[0]
    code, given = cu.cuGraphKernelNodeGetParams(inner)
    assert not code
    assert not cu.cuGraphExecKernelNodeSetParams(executable, inner, given)[0]


@UNRECORDED
def test_a_body_belongs_to_its_node(kit: ConditionalKit) -> None:
    _, made = kit.loop(kit.number(), kit.number(2))
    assert int(cu.cuGraphDestroy(made.bodies[0])[0]) == INVALID_VALUE
    assert int(cu.cuGraphClone(made.bodies[0])[0]) == NOT_SUPPORTED
    conditional.begin_body(kit.inner, made.bodies[0])
    assert int(cu.cuGraphDestroy(kit.graph)[0]) == ILLEGAL_STATE, "a stream records into it"
    assert stream.end_capture(kit.inner) == made.bodies[0]


@UNRECORDED
def test_a_capture_into_the_body_of_a_capture_that_is_lost(kit: ConditionalKit) -> None:
    s, count = kit.rig.stream, kit.number()
    stream.begin_capture(s)
    capturing = stream.capture_graph(s)
    assert capturing is not None
    handle = conditional.create_handle(capturing, 1)
    made = conditional.add_to_capture(s, handle, "if")
    conditional.begin_body(kit.inner, made.bodies[0])
    kit.bump(kit.inner, 1, 1, count, 1)
    assert code_of(lambda: stream.synchronize(s)) == 900
    assert code_of(lambda: stream.end_capture(s)) == 901
    assert stream.capture_status(kit.inner) == "invalidated"
    assert code_of(lambda: stream.end_capture(kit.inner)) == 901


@pytest.mark.host
def test_a_handle_that_does_not_exist_is_a_fault_of_the_kernel(
    request: pytest.FixtureRequest,
) -> None:
    done = run_python(_NO_SUCH_HANDLE.format(spec=request.config.getoption("--device")))
    assert "cudaGraphSetConditional of a handle that does not exist" in done.stdout, done.stderr
    assert ContextPoisoned.__name__ in done.stdout


_NO_SUCH_HANDLE = """
from lowgraph import Library, open_device
from lowgraph.driver import stream as streams
from lowgraph.errors import LowgraphError
from tests.hostdev.graphs.conditional_kit import SOURCE
from tests.support.rig import Rig
device = open_device({spec!r})
rig = Rig(device, Library(device))
import numpy as np
value = rig.put(np.array([1], np.int32))
rig.library.kernel(SOURCE, "decide")(rig.stream, 1, 1, 12345, value)
try:
    streams.synchronize(rig.stream)
except LowgraphError as error:
    print(type(error).__name__, error)
"""
