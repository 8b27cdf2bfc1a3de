"""What is found in a body when it ends, whoever put it there."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from cuda.bindings import driver as bindings

from lowgraph import driver
from lowgraph.capture import body_rules
from tests.capture.looping import Looping


def test_what_a_child_graph_in_a_body_hides_is_found(looping: Looping) -> None:
    """Built by hand: a graph that records a host function, as a child of what a body holds."""
    callback = driver.entry.HOST_FUNCTION(lambda data: None)
    address = int(ctypes.cast(callback, ctypes.c_void_p).value or 0)
    driver.stream.begin_capture(looping.stream)
    looping.add(looping.stream, 1, 1, looping.sum, 1)
    driver.entry.launch_host_function(looping.stream, address)
    child = driver.stream.end_capture(looping.stream)
    code, body = bindings.cuGraphCreate(0)
    assert not code and not bindings.cuGraphAddEmptyNode(body, [], 0)[0]
    assert body_rules.illegal_node(int(body)) is None
    assert not bindings.cuGraphAddChildGraphNode(body, [], 0, child)[0]
    found = body_rules.illegal_node(int(body))
    assert found is not None and (found[0], found[1].type) == (1, "host")
    assert "a child graph, whose node 1 it is" in found[1].label
    for graph in (int(body), child):
        driver.graph.destroy(graph)


@pytest.mark.parametrize("pinned", [True, False])
def test_a_foreign_copy_of_host_memory_is_judged_by_its_memory(
    looping: Looping, pinned: bool
) -> None:
    pageable = (ctypes.c_char * 4)()
    slot = looping.pool.staging.slot("slot", (1,), np.int32)
    source = slot.address if pinned else ctypes.addressof(pageable)
    driver.stream.begin_capture(looping.stream)
    assert not bindings.cuMemcpyHtoDAsync(looping.left.address, source, 4, looping.stream)[0]
    body = driver.stream.end_capture(looping.stream)
    found = body_rules.illegal_node(body)
    assert (found is None) == pinned and (found is None or found[1].type == "memcpy")
    driver.graph.destroy(body)
