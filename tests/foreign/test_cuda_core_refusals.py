"""What cuda.core cannot do on the host device is refused cleanly: docs/host-programs.md's table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.foreign.core import cc, graph

pytestmark = pytest.mark.host

NO_RUNTIME, NOT_SUPPORTED = "cudaErrorSymbolNotFound", "CUDA_ERROR_NOT_SUPPORTED"
TOO_OLD = "requires CUDA 13"  # cuda-bindings 12.9


def with_shared_event(core: Any) -> None:
    core.stream.record(options=cc.EventOptions(ipc_enabled=True))


def with_shared_memory(core: Any) -> None:
    options = cc.DeviceMemoryResourceOptions(ipc_enabled=True, max_size=1 << 20)
    cc.DeviceMemoryResource(core.device, options)


def of_nvrtc(core: Any) -> None:
    pytest.importorskip("nvidia.cuda_nvrtc", reason="NVRTC is not installed")
    text = 'extern "C" __global__ void k(int* out) { out[0] = 1; }'
    options = cc.ProgramOptions(arch=f"sm_{core.device.arch}")
    cc.Program(text, "c++", options).compile("cubin").get_kernel("k")


def of_a_child_in_a_definition(core: Any) -> None:
    y, child, definition = core.put(np.zeros(4)), graph.GraphDefinition(), graph.GraphDefinition()
    child.memset(y, 0, 16)
    definition.embed(child).update(child)


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda core: core.device.sync(), NO_RUNTIME),
        (lambda core: core.device.pci_bus_id, NO_RUNTIME),
        (of_nvrtc, "CUDA_ERROR_NO_BINARY_FOR_GPU"),
        (lambda core: cc.PinnedMemoryResource(), f"{NOT_SUPPORTED}|{TOO_OLD}"),
        (lambda core: cc.ManagedMemoryResource(), f"{NOT_SUPPORTED}|{TOO_OLD}"),
        (with_shared_event, "Failed to create CUDA event"),
        (with_shared_memory, NOT_SUPPORTED),
        (of_a_child_in_a_definition, NOT_SUPPORTED),
    ],
)
def test_a_refusal_is_an_exception_and_the_work_goes_on(
    core: Any, act: Callable[[Any], Any], says: str
) -> None:
    with pytest.raises(Exception, match=says):
        act(core)
    x = core.put(np.arange(257))
    core.run(core.capture(x, x, 1).complete())  # x += x
    np.testing.assert_array_equal(core.get(x), 2.0 * np.arange(257))
