"""cuda.core's conditional nodes, built by its GraphBuilder, run on either device."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph.driver import Device
from tests.foreign import programs
from tests.foreign.core import cc

pytestmark = pytest.mark.both

SOURCE = Path(__file__).with_name("conditional.cu")


@pytest.fixture(scope="module")
def kernels(core: Any, device: Device) -> Any:
    """The kernels of conditional.cu; skips on a driver without conditional nodes."""
    found = ctypes.c_void_p()
    library = ctypes.CDLL("libcuda.so.1")
    version = min(device.driver_version, 12030)  # the version that brought them
    name = b"cuGraphConditionalHandleCreate"
    library.cuGetProcAddress_v2(name, ctypes.byref(found), version, ctypes.c_ulonglong(0), None)
    if not found.value:
        pytest.skip("this driver has no conditional nodes (cuGraphConditionalHandleCreate)")
    code = cc.ObjectCode.from_cubin(programs.image_of(device, SOURCE))
    return {name: code.get_kernel(name) for name in ("add_up_to", "add", "decide")}


def ints(core: Any, *values: int) -> Any:
    return core.put(np.array(values, np.int32).view(np.float32))


def total_of(core: Any, buffer: Any) -> int:
    return int(core.get(buffer).view(np.int32)[0])


ONE = {"grid": 1, "block": 1}


@pytest.mark.parametrize(("limit", "total"), [(10, 12), (1, 3), (100, 102)])
def test_a_while_loop_runs_until_its_kernel_says_no(
    core: Any, kernels: Any, limit: int, total: int
) -> None:
    """Adds 3 at a time: the first multiple of 3 that is not below the limit."""
    config, out, by = cc.LaunchConfig(**ONE), ints(core, 0), ints(core, 3)
    builder = core.device.create_graph_builder().begin_building()
    condition = builder.create_condition(1)
    body = builder.while_loop(condition).begin_building()
    cc.launch(body, config, kernels["add_up_to"], out, by, np.int32(limit), condition)
    body.end_building()
    core.run(builder.end_building().complete())
    assert total_of(core, out) == total


@pytest.mark.parametrize(("value", "total"), [(1, 5), (0, 7)])
def test_a_branch_is_taken_by_what_a_kernel_decided(
    core: Any, kernels: Any, value: int, total: int
) -> None:
    config, chosen, out = cc.LaunchConfig(**ONE), ints(core, value), ints(core, 0)
    five, seven = ints(core, 5), ints(core, 7)
    builder = core.device.create_graph_builder().begin_building()
    condition = builder.create_condition(0)
    cc.launch(builder, config, kernels["decide"], chosen, condition)
    branches = builder.if_else(condition)
    for branch, by in zip(branches, (five, seven), strict=True):
        branch.begin_building()
        cc.launch(branch, config, kernels["add"], out, by)
        branch.end_building()
    core.run(builder.end_building().complete())
    assert total_of(core, out) == total
