"""The pool's map: every byte once, with who has it; holes, padding and fragmentation."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

import lowgraph
from lowgraph.memory import STATES, MapBlock, PersistentPool, PoolMap, pool_map
from tests.memory.fakes import make_pool
from tests.memory.test_owners import KIB, Graph, capture


def assert_whole(pool: PersistentPool) -> PoolMap:
    """The map of a pool, once it adds up with the pool's own figures."""
    found, stats = pool_map(pool), pool.stats()
    assert found.nbytes == stats.reserved
    assert found.of("free", "resting") == sum(found.holes) == stats.free
    assert found.of("live", "workspace") == stats.live
    assert (found.of("graph"), found.of("primed")) == (stats.retained, stats.primed)
    for left, right in pairwise(found.blocks):
        if left.segment == right.segment:
            assert left.offset + left.nbytes == right.offset, "neither a gap nor an overlap"
        else:
            assert right.segment == left.segment + 1 and right.offset == 0
    return found


def test_each_state_is_told_with_its_owner_and_stage() -> None:
    pool, _ = make_pool()
    weight = pool.take("weights", 4 * KIB)
    workspace = pool.take("workspace", 2 * KIB)
    pool.make_exclusive(workspace)
    with lowgraph.stage("forward"), lowgraph.stage("attention"):
        scores = pool.take("scores", (4, KIB), "int32")
    graph = capture(pool, "train", [16 * KIB])
    pool.hold(weight, graph)
    with pool.priming("next"):
        pool.take("t", 8 * KIB)
    pool.give_back(pool.take("gone", 100))
    found = assert_whole(pool)
    by_state = {block.state: block for block in found.blocks}
    assert set(by_state) == {"live", "workspace", "graph", "primed", "free"} <= set(STATES)
    (row,) = [b for b in found.blocks if b.slices and b.slices[0].name == "scores"]
    (piece,) = row.slices
    assert (piece.stage, piece.dtype, piece.shape) == ("forward/attention", "int32", (4, KIB))
    assert (row.state, row.owners, row.address) == ("live", (), scores.address)
    (row,) = [b for b in found.blocks if b.slices and b.slices[0].name == "weights"]
    assert (row.state, row.owners) == ("live", ("train",)), "a graph holds what lives anyway"
    assert by_state["workspace"].slices[0].name == "workspace"
    assert by_state["graph"].owners == ("train",) and by_state["primed"].owners == ("next",)
    assert by_state["free"].slices == () and by_state["free"].nbytes == 512
    assert scores.part(4, (4,)).stage == "forward/attention", "a part is of its root's"


def test_a_block_that_a_pass_used_twice_has_both_slices() -> None:
    pool, _ = make_pool()
    graph = Graph("train")

    def body() -> None:
        with lowgraph.stage("forward"):
            first = pool.take("first", KIB)
        pool.give_back(first)
        with lowgraph.stage("backward"):
            pool.give_back(pool.take("second", KIB))
        pool.give_back(pool.take("larger", 2 * KIB))
        pool.take("kept", 4 * KIB)

    with pool.priming("train") as primed:
        body()
    pool.begin_window("train", primed)
    body()
    inside = assert_whole(pool)
    assert inside.of("free") == inside.nbytes - 4096, (
        "in the window, but for what is not given back"
    )
    pool.end_window(graph)
    found = assert_whole(pool)
    used = [[(one.name, one.stage) for one in block.slices] for block in found.blocks]
    assert [("first", "forward"), ("second", "backward")] in used
    assert [("larger", "")] in used and [("kept", "")] in used
    lines = list(found.lines())
    assert any("first float32 [256] in forward; held by train" in line for line in lines)
    assert any("second float32 [256] in backward; held by train" in line for line in lines)
    pool.release(graph)
    assert assert_whole(pool).of("graph") == 0


def test_holes_and_fragmentation() -> None:
    def block(segment: int, offset: int, nbytes: int, state: str) -> MapBlock:
        return MapBlock(segment, offset, 4096 * segment + offset, nbytes, state)

    assert PoolMap(()).fragmentation == 0.0 and PoolMap(()).holes == ()
    whole = PoolMap((block(0, 0, 512, "free"), block(0, 512, 256, "resting")))
    assert whole.holes == (768,) and whole.fragmentation == 0.0, "neighbours are one hole"
    cut = PoolMap((*whole.blocks, block(0, 768, 256, "live"), block(0, 1024, 256, "free")))
    assert cut.holes == (768, 256) and cut.fragmentation == 0.25
    apart = PoolMap((block(0, 0, 512, "free"), block(1, 0, 512, "free")))
    assert apart.holes == (512, 512) and apart.fragmentation == 0.5, "no block spans allocations"
    assert "2 driver allocations, 2 blocks, padding 0 bytes, 2 holes" in apart.summary()
    assert "fragmentation 50%" in apart.summary()


def test_the_map_as_text_and_as_data() -> None:
    pool, _ = make_pool()
    pool.take("w", 100)
    pool.give_back(pool.take("gone", 64))
    found = assert_whole(pool)
    assert found.padding == 112
    summary, head, live, free = found.lines()
    assert summary.startswith("map: 2 driver allocations, 2 blocks, padding 112 bytes, 1 hole ")
    assert head.split() == ["allocation", "+offset", "bytes", "state", "slice"]
    assert live.split() == ["0", "+0", "400", "live", "w", "float32", "[100]"]
    assert free.split() == ["1", "+0", "256", "free", "-"]
    data = json.loads(json.dumps(found.as_dict()))
    assert data["nbytes"] == found.nbytes and data["fragmentation"] == 0.0
    assert data["states"]["live"] == 512 and data["holes"] == [256]
    assert data["blocks"][0]["slices"][0]["name"] == "w"


def test_a_block_that_rests_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, _ = make_pool()
    monkeypatch.setattr(pool._source, "_resting", 1)
    pool.give_back(pool.take("gone", KIB))
    found = assert_whole(pool)
    assert [block.state for block in found.blocks] == ["resting"] and found.holes == (1024,)
