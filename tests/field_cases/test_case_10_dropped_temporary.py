"""Case 10: a captured array is dropped, its block goes to a new one, and the graph reads that.

The driver-level half; CuPy's memory pool does the same at its border.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowgraph import driver
from lowgraph.capture import HeldBuffer, Input, Phase
from lowgraph.errors import PhaseError
from lowgraph.memory import PersistentPool, download, open_window, upload
from tests.capture.micro import BLOCKS, Micro
from tests.field_cases.bare import BLOCK, GRID, Bare, N
from tests.support.rig import Rig


def test_bare_the_second_replay_reads_the_new_owner(bare: Bare) -> None:
    scale = bare.kernel("scale")
    block, y = bare.rig.put(np.ones(N, np.float32)), bare.rig.empty(N)
    graph = bare.ready(lambda: scale(bare.stream, GRID, BLOCK, y, block, 2.0, N))
    bare.replay(graph)
    assert np.all(bare.rig.get(y) == 2.0), "the first one looks right"
    bare.kernel("fill")(bare.stream, GRID, BLOCK, block, 7.0, N)  # the name is gone, the block used
    bare.replay(graph)
    assert np.all(bare.rig.get(y) == 14.0)


class Stale:
    """A graph recorded by bare calls over a slice that was given back: nobody keeps it."""

    def __init__(self, bare: Bare, **options: Any) -> None:
        self.bare = bare
        self.pool = PersistentPool(bare.rig.device, poison=False, **options)
        self.scale = bare.kernel("scale")
        self.temporary, self.y = self.pool.take("temporary", N), self.pool.take("y", N)
        upload(self.temporary, np.full(N, 3, np.float32), bare.stream)
        self.address = self.temporary.address
        self.graph = bare.ready(
            lambda: self.scale(bare.stream, GRID, BLOCK, self.y, self.temporary, 2.0, N)
        )

    def replayed(self) -> Any:
        self.bare.replay(self.graph)
        return download(self.y, self.bare.stream)


def test_bare_a_freed_and_reused_temporary_reads_as_plausible_garbage(bare: Bare) -> None:
    stale = Stale(bare)
    assert np.all(stale.replayed() == 6.0)
    stale.pool.give_back(stale.temporary)
    assert np.all(stale.replayed() == 6.0), "not reused yet: it even looks right"
    fresh = stale.pool.take("fresh", N)
    upload(fresh, np.full(N, 7, np.float32), bare.stream)
    assert fresh.address == stale.address
    assert np.all(stale.replayed() == 14.0), "somebody else's numbers, and no error"
    stale.pool.close()


def test_in_debug_mode_a_stale_read_is_nan_at_once(bare: Bare) -> None:
    """fill_stream: what was freed is NaN before anybody reuses it, in stream order."""
    stale = Stale(bare, fill_stream=bare.stream)
    assert np.all(stale.replayed() == 6.0)
    stale.pool.give_back(stale.temporary)
    assert np.isnan(stale.replayed()).all()
    stale.pool.close()


def test_in_debug_mode_a_step_still_has_its_temporary_for_the_graph_keeps_it(rig: Rig) -> None:
    micro = Micro(rig, poison=False, fill_stream=rig.stream)
    y, addresses = micro.pool.take("out", N), list[int]()

    def body(stream: int) -> None:
        temporary = micro.pool.take("temporary", N)
        addresses.append(temporary.address)
        micro.forward(stream, BLOCKS, 128, temporary, micro.x, N)
        micro.forward(stream, BLOCKS, 128, y, temporary, N)
        micro.pool.give_back(temporary)

    step = micro.step(body=body)
    expected = 4 * download(micro.x, micro.stream).astype(np.float64) + 3
    for _ in range(3):
        step()
        # Twice 2x + 1 in float32: one rounding a pass, of values up to 7.
        np.testing.assert_allclose(download(y, micro.stream), expected, rtol=0, atol=2e-6)
        # Small enough for a part of any block that was freed: none may be the graph's.
        others = [micro.pool.take(f"other {n}", N) for n in range(4)]
        assert step.phase is not Phase.READY or addresses[-1] not in {o.address for o in others}
        for other in others:
            upload(other, np.full(N, 7, np.float32), micro.stream)
            micro.pool.give_back(other)
    assert step.report().replays == 2
    micro.close()


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


# ---- what a graph holds, by name ----


def _by_name(buffers: tuple[HeldBuffer, ...]) -> dict[str, tuple[str, int, bool]]:
    return {buffer.name: (buffer.role, buffer.nbytes, buffer.alive) for buffer in buffers}


def test_a_graph_lists_its_buffers_with_bytes_and_role(micro: Micro) -> None:
    pool, stream = micro.pool, micro.stream
    copied, source = pool.take("copied", 257), pool.take("source", 257)
    workspace, cleared = pool.take("workspace", 33), pool.take("cleared", 1)
    pool.make_exclusive(workspace)
    pool.take("unused", 10)

    def extra(number: int) -> None:
        memory = driver.memory
        memory.copy_dtod_async(copied.address, source.address, copied.nbytes, stream)
        memory.memset_d8_async(cleared.address, 0, cleared.nbytes, stream)
        micro.forward(stream, 1, 33, workspace, micro.x, 33)
        for held in (copied, source, cleared):  # a kernel that names them, for the graph to hold
            micro.forward(stream, 1, 32, pool.take("sink", 1), held, 1)

    micro.extra = extra
    step = micro.step()
    step()
    step()
    graph = step.graph
    assert graph is not None
    held = _by_name(graph.buffers())
    aligned = lambda count: -(-4 * count // 256) * 256  # noqa: E731
    assert held["x"] == ("input", aligned(N), True)
    assert held["y"] == ("written", aligned(N), True), "read and written: in place"
    assert held["counter"] == ("written", 256, True)
    assert held["source"] == ("input", aligned(257), True)
    assert held["copied"] == ("written", aligned(257), True)
    assert held["cleared"] == ("written", 256, True)
    assert held["workspace"] == ("workspace", 256, True)
    assert held["second"][:2] == ("temporary", aligned(2 * N)) and "unused" not in held
    sizes = [buffer.nbytes for buffer in graph.buffers()]
    assert sizes == sorted(sizes, reverse=True), "the largest first"
    temporaries = sum(b.nbytes for b in graph.buffers() if b.role == "temporary")
    assert temporaries == step.report().retained_bytes, "what only the graph keeps"
    pool.give_back(copied)
    ended = next(buffer for buffer in graph.buffers() if buffer.name == "copied")
    assert not ended.alive and str(ended).startswith("written 'copied' 1.25 KiB at 0x")
    assert str(ended).endswith(", given back")
    step.close()
    with pytest.raises(PhaseError, match="closed: it cannot be asked for what it holds"):
        graph.buffers()


def test_what_a_librarys_kernels_use_is_said_to_be_unknown(micro: Micro) -> None:
    """The recorder is told addresses of a library call, not what is done with them."""
    theirs = micro.pool.take("theirs", N)

    def library(number: int) -> None:
        recorder = open_window.recorder()
        assert recorder is not None
        recorder.library_call("gemm of a library", 0, (theirs.address,))

    micro.extra = library
    step = micro.step(inputs=[Input("theirs", theirs, state=True)])
    step()
    step()
    assert step.graph is not None
    assert _by_name(step.graph.buffers())["theirs"][0] == "unknown"
    assert micro.said == [], "it may write it: no warning of what is not known"
