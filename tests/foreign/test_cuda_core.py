"""What a user of NVIDIA's cuda.core does with captured graphs works on either device."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowgraph.driver import Device
from lowgraph.hostdev import build
from tests.foreign import programs
from tests.foreign.core import N, cc, graph
from tests.support.process import ROOT

pytestmark = pytest.mark.both

X = np.arange(N, dtype=np.float32)

SAYS = """\
3 replays: y = 6 x
3 replays: y = 21 x
refused: Graph update failed: The update failed because the topology changed
1 replays: y = 26 x
ok
"""


def test_the_example_runs_with_nothing_of_lowgraph(device: Device, tmp_path: Path) -> None:
    """The search path alone brings the host device: the program imports cuda.core only."""
    image = tmp_path / "capture.image"
    image.write_bytes(programs.image_of(device, programs.EXAMPLE.with_suffix(".cu")))
    found = {"LD_LIBRARY_PATH": str(build.link_folder())} if device.spec == "host" else {}
    done = subprocess.run(
        [sys.executable, "-W", "error", "examples/cuda_core_graph.py", str(image)],
        env={**os.environ, **found}, cwd=ROOT,
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    title, said = done.stdout.split("\n", 1)
    assert title == f"device: {device.title}"
    # cuda.core puts the driver's name of the reason in brackets behind it.
    assert [line.partition(" (CU_")[0] for line in said.splitlines()] == SAYS.splitlines()


def test_split_and_join_record_the_fork(core: Any) -> None:
    x, y, z = core.put(X), core.put(0 * X), core.put(0 * X)
    builder = core.device.create_graph_builder().begin_building("global")
    left, right = builder.split(2)
    core.add(left, y, x, 2)
    cc.launch(right, core.config, core.square, z, x, np.int32(N))
    builder = graph.GraphBuilder.join(left, right)
    core.add(builder, y, z, 1)
    builder.end_building()
    definition = builder.graph_definition
    assert len(definition.nodes()) == 3
    assert len(definition.edges()) == 2
    core.run(builder.complete())
    np.testing.assert_array_equal(core.get(y), 2 * X + X * X)


def test_an_update_gives_the_next_launches_their_values(core: Any) -> None:
    x, y = core.put(X), core.put(0 * X)
    executable = core.capture(y, x, 2).complete()
    core.run(executable)
    executable.update(core.capture(y, x, 10))
    core.run(executable, times=2)
    np.testing.assert_array_equal(core.get(y), 22 * X)


def test_a_callback_runs_in_each_replay(core: Any) -> None:
    builder = core.device.create_graph_builder().begin_building()
    ran: list[int] = []
    builder.callback(lambda: ran.append(len(ran)))
    core.run(builder.end_building().complete(), times=3)
    assert ran == [0, 1, 2]


def test_memory_that_a_graph_allocates(core: Any) -> None:
    """GraphMemoryResource: memory that comes and goes in the graph, and is counted."""
    memory = cc.GraphMemoryResource(core.device)
    memory.trim()
    memory.attributes.used_mem_high = 0
    y, builder = core.put(0 * X), core.device.create_graph_builder().begin_building()
    taken = memory.allocate(4 * N, stream=builder)
    taken.fill(np.float32(3.0), stream=builder)
    core.add(builder, y, taken, 5)
    taken.close(builder)
    executable = builder.end_building().complete()
    core.run(executable, times=2)
    np.testing.assert_array_equal(core.get(y), np.full(N, 30, np.float32))
    assert memory.attributes.used_mem_high >= 4 * N
    assert memory.attributes.reserved_mem_high >= memory.attributes.reserved_mem_current


def test_a_definition_is_built_updated_and_switched_node_by_node(core: Any) -> None:
    x, y, z = core.put(X), core.put(X), core.put(X)
    definition, event = graph.GraphDefinition(), core.device.create_event()
    cleared = definition.memset(y, 0, 4 * N)
    added = core.add(cleared, y, x, 2)
    copied = added.memcpy(z, y, 4 * N)
    copied.record(event).wait(event)
    executable = definition.instantiate()
    core.run(executable)
    np.testing.assert_array_equal(core.get(z), 2 * X)
    arguments = (y, x, np.float32(7), np.int32(N))
    executable[added].update(config=core.config, kernel=core.add_scaled, args=arguments)
    executable[copied].disable()
    assert not executable[copied].is_enabled
    core.run(executable)
    np.testing.assert_array_equal(core.get(y), 7 * X)
    np.testing.assert_array_equal(core.get(z), 2 * X)
    assert added.grid == (2, 1, 1)
    assert (cleared.width, cleared.value, copied.size) == (4 * N, 0, 4 * N)


def test_a_child_graph_is_replaced_in_the_executable(core: Any) -> None:
    x, y = core.put(X), core.put(0 * X)
    children = [graph.GraphDefinition() for _ in range(2)]
    for child, a in zip(children, (1, 100), strict=True):
        core.add(child, y, x, a)
    definition = graph.GraphDefinition()
    node = definition.embed(children[0])
    executable = definition.instantiate()
    core.run(executable)
    executable[node].update(children[1])
    core.run(executable)
    np.testing.assert_array_equal(core.get(y), 101 * X)


def test_events_time_and_order_streams(core: Any) -> None:
    other, x, y = core.device.create_stream(), core.put(X), core.put(0 * X)
    begin = core.stream.record(options=cc.EventOptions(timing_enabled=True))
    core.add(core.stream, y, x, 1)
    end = core.stream.record(options=cc.EventOptions(timing_enabled=True))
    other.wait(end)
    core.add(other, y, y, 1)  # y += y
    other.sync()
    assert end.is_done
    assert 0 <= end - begin < 60_000  # milliseconds
    np.testing.assert_array_equal(core.get(y), 2 * X)


def test_a_pool_of_ones_own(core: Any) -> None:
    gc.collect()  # buffers of earlier tests are freed in the order of their stream
    core.stream.sync()
    memory = cc.DeviceMemoryResource(core.device)
    before = memory.attributes.used_mem_current
    buffer = memory.allocate(4096, stream=core.stream)
    core.stream.sync()
    assert memory.attributes.used_mem_current - before >= 4096
    assert buffer.is_device_accessible
    buffer.close(core.stream)
    core.stream.sync()
    assert memory.attributes.used_mem_current == before


def test_what_kernels_and_the_device_tell(core: Any, device: Device) -> None:
    kernel, properties = core.add_scaled, core.device.properties
    assert [(info.offset, info.size) for info in kernel.arguments_info] == [
        (0, 8), (8, 8), (16, 4), (20, 4)
    ]  # fmt: skip
    assert kernel.attributes.max_threads_per_block == 1024
    assert core.device.name == device.title
    assert properties.warp_size == 32
    assert properties.multiprocessor_count == device.multiprocessors
    for name in (name for name in dir(type(properties)) if not name.startswith("_")):
        getattr(properties, name)  # none may raise


def test_occupancy(core: Any) -> None:
    occupancy = core.add_scaled.occupancy
    blocks = occupancy.max_active_blocks_per_multiprocessor(256, 0)
    left = occupancy.available_dynamic_shared_memory_per_block(2, 256)
    assert blocks >= 2
    assert 48 << 10 <= left <= core.device.properties.max_shared_memory_per_multiprocessor // 2
    assert occupancy.max_potential_block_size(0, 0).max_block_size == 1024
    pairs = cc.LaunchConfig(grid=4, block=256, cluster=2)
    assert occupancy.max_potential_cluster_size(pairs, stream=core.stream) >= 8
    assert occupancy.max_active_clusters(pairs, stream=core.stream) >= 1
