"""Case 10: a captured array is dropped, its block goes to a new one, and the graph reads that.

The driver-level half; CuPy's memory pool does the same at its border.
"""

from __future__ import annotations

import numpy as np

from lowgraph.memory import download, upload
from tests.capture.micro import BLOCKS, Micro
from tests.field_cases.bare import BLOCK, GRID, Bare, N


def test_bare_the_second_replay_reads_the_new_owner(bare: Bare) -> None:
    scale = bare.kernel("scale")
    block, y = bare.rig.put(np.ones(N, np.float32)), bare.rig.empty(N)
    graph = bare.ready(lambda: scale(bare.stream, GRID, BLOCK, y, block, 2.0, N))
    bare.replay(graph)
    assert np.all(bare.rig.get(y) == 2.0), "the first one looks right"
    bare.kernel("fill")(bare.stream, GRID, BLOCK, block, 7.0, N)  # the name is gone, the block used
    bare.replay(graph)
    assert np.all(bare.rig.get(y) == 14.0)


def test_the_block_stays_the_graphs_when_the_name_ends(micro: Micro) -> None:
    pool, stream = micro.pool, micro.stream
    a, y = pool.take("a", N), pool.take("out", N)
    upload(a, np.ones(N, np.float32), stream)
    step = micro.step(body=lambda on: micro.forward(on, BLOCKS, 128, y, a, N))
    for _ in range(3):
        step()
    address, body_reads = a.address, step.report().retained_bytes
    pool.give_back(a)
    assert step.report().retained_bytes == body_reads + 4096, "N floats in steps of 256 bytes"
    owner = pool.who_owns(address)
    assert owner is not None and owner.name == "a", "given back, and still known by name"
    fresh = pool.take("b", N)
    upload(fresh, np.full(N, 7, np.float32), stream)
    step()
    assert np.all(download(y, stream) == 3.0) and fresh.address != address
    step.close()
    again = pool.take("c", N)
    assert again.address == address, "free once the graph is closed"


def test_a_replay_does_not_feed_its_output_back(micro: Micro) -> None:
    """The other half of the report: out of place, every replay computes the same."""
    y = micro.pool.take("out", N)
    step = micro.step(body=lambda on: micro.forward(on, BLOCKS, 128, y, micro.x, N))
    results = []
    for _ in range(4):
        step()
        results.append(download(y, micro.stream).tobytes())
    assert len(set(results)) == 1 and step.report().replays == 3
