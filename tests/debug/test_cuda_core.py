"""A graph that NVIDIA's cuda.core captured, read by its handle."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from lowgraph import debug
from lowgraph.capture import ForeignMemory
from lowgraph.driver import Device

pytestmark = pytest.mark.both

X = np.arange(257, dtype=np.float32)


@pytest.fixture(scope="module")
def core(device: Device) -> Any:
    """cuda.core on the device."""
    pytest.importorskip("cuda.core.graph", reason="this cuda.core has no graph package")
    from tests.foreign.core import Core

    return Core(device)


def test_a_graph_of_cuda_cores_has_its_kernel_and_its_buffers(core: Any) -> None:
    x, y = core.put(X), core.put(0 * X)
    foreign = [
        ForeignMemory(int(one.handle), one.size, one, name=name)
        for name, one in (("x", x), ("y", y))
    ]
    builder = core.capture(y, x, 2)
    form = debug.read_handle(int(builder.graph_definition.handle), foreign=foreign)
    (node,) = form.nodes
    assert (node.kind, node.name) == ("kernel", "add_scaled")
    assert (node.attributes["grid"], node.attributes["block"]) == ((2, 1, 1), (256, 1, 1))
    assert [form.place(one) for one in node.arguments] == ["y", "x", "", ""]
    assert [one.data for one in node.arguments[2:]] == [
        struct.pack("<f", 2.0),
        struct.pack("<i", X.size),
    ]
    assert [one.role for one in form.memory] == ["foreign", "foreign"]
