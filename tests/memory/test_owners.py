"""Who holds what: who_owns, holders, the shares of the pool, and the report of the device."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lowgraph import driver
from lowgraph.errors import PoolError, WorkspaceInUse
from lowgraph.memory import (
    MemoryReport,
    PersistentPool,
    Share,
    describe_address,
    memory_report,
    top_owners,
)
from lowgraph.memory.owners import shares
from tests.memory.fakes import make_pool
from tests.support.rig import Rig

KIB = 256  # elements of float32


class Graph:
    """An owner with a name."""

    def __init__(self, label: str) -> None:
        self.label = label

    def __str__(self) -> str:
        return self.label


def capture(pool: PersistentPool, label: str, sizes: list[int]) -> Graph:
    """A primed window that took slices of these sizes, kept by a graph."""
    graph = Graph(label)
    with pool.priming(label) as primed:
        for size in sizes:
            pool.take("t", size)
    pool.begin_window(label, primed)
    for size in sizes:
        pool.take("t", size)
    pool.end_window(graph)
    return graph


def test_who_owns_an_address_inside_and_outside() -> None:
    pool, _ = make_pool()
    piece = pool.take("x", 100)  # 400 bytes in a block of 512
    address = piece.address
    assert pool.who_owns(address) is pool.who_owns(address + 511) is piece
    assert pool.who_owns(address + 512) is None and pool.who_owns(address - 1) is None
    graph = Graph("step")
    pool.hold(piece, graph)
    pool.give_back(piece)
    found = pool.who_owns(address)
    assert found is piece and not found.alive and pool.holders(piece) == ["step"]
    pool.release(graph)
    assert pool.who_owns(address) is None
    again = pool.take("y", 100)
    assert again.address == address
    assert pool.who_owns(address) is again and again.generation == piece.generation + 1


def test_shares_split_the_pool_by_owner_and_add_up() -> None:
    pool, _ = make_pool()
    pool.take("weights", 4 * KIB)
    workspace = pool.take("workspace", 2 * KIB)
    pool.make_exclusive(workspace)
    first, second = capture(pool, "train", [KIB, KIB]), capture(pool, "eval", [KIB])
    with pool.priming("next"):
        pool.take("t", 8 * KIB)
    assert [str(share) for share in shares(pool)] == [
        "primed 'next' 8.00 KiB",
        "slice 'weights' 4.00 KiB",
        "graph 'train' 2.00 KiB",
        "workspace 'workspace' 2.00 KiB",
        "graph 'eval' 1.00 KiB",
    ]
    stats = pool.stats()
    assert sum(share.nbytes for share in shares(pool)) == stats.reserved - stats.free
    assert (pool.retained(first), pool.retained(second)) == (2048, 1024), "bytes by graph"


def test_a_parameter_that_only_a_graph_keeps_counts_as_the_graphs() -> None:
    pool, _ = make_pool()
    weight, graph = pool.take("weight", KIB), Graph("train")
    pool.hold(weight, graph)
    assert [str(share) for share in shares(pool)] == ["slice 'weight' 1.00 KiB"]
    pool.give_back(weight)
    assert [str(share) for share in shares(pool)] == ["graph 'train' 1.00 KiB"]


def test_the_report_splits_the_devices_memory(rig: Rig) -> None:
    pool = PersistentPool(rig.device)
    pool.take("weights", 4 * KIB)
    workspace = pool.take("workspace", 2 * KIB)
    pool.make_exclusive(workspace)
    report = memory_report(pool)
    assert report.total == rig.device.total_memory and 0 < report.free < report.total
    assert report.outside == report.total - report.free - 6144 >= 0
    assert (report.of("slice"), report.of("workspace"), report.of("graph")) == (4096, 2048, 0)
    for part in ("outside the pool", "slice 4.00 KiB, graph 0 bytes", "slice 'weights' 4.00 KiB"):
        assert part in report.text()
    line = top_owners(pool, 1)
    assert f"({report.free} bytes)" in line and "slice 'weights'" in line
    assert "workspace" not in line, "only as many as asked for"
    pool.close()
    assert "top owners: nobody" in top_owners(pool)


@pytest.mark.host  # a GPU is shared with others, who move the same figure
def test_the_owners_and_the_drivers_share_are_what_is_taken(rig: Rig) -> None:
    """Of the driver's own figures, not of ours: what others take moves one line of the report."""
    pool = PersistentPool(rig.device)
    pool.take("weights", 4 * KIB)
    graph = capture(pool, "train", [KIB])
    pool.give_back(pool.take("gone", 2 * KIB))
    mib = 1 << 20
    before = memory_report(pool)
    address = driver.memory.alloc(64 * mib)
    theirs = memory_report(pool)
    assert theirs.driver - before.driver == 64 * mib and theirs.pool == before.pool
    driver.memory.free(address)
    big = pool.take("big", 64 * mib, "uint8")
    ours = memory_report(pool)
    assert (ours.driver, ours.of("slice")) == (before.driver, before.of("slice") + 64 * mib)
    for report in (before, theirs, ours):
        free, total = report.free, report.total
        held = sum(share.nbytes for share in report.shares)
        assert held + report.pool.free == report.pool.reserved
        assert report.of("executable") + report.driver == report.outside
        assert free + held + report.pool.free + report.outside == total
    pool.give_back(big)
    pool.release(graph)
    pool.close()


def test_the_report_as_data_and_in_full() -> None:
    pool, _ = make_pool()
    for number in range(7):
        pool.take(f"slice {number}", KIB)
    pool.note_executable("handle", "train", 3 << 20)
    pool.note_executable("other handle", "train", 1 << 20)
    report = MemoryReport(
        1 << 30, 2 << 30, pool.stats(), shares(pool), 0,
        tuple(Share("executable", *one) for one in pool.executables()),
    )  # fmt: skip
    assert report.of("executable") == 4 << 20
    assert report.driver == (1 << 30) - 7 * 1024 - (4 << 20)
    assert "executables 4.00 MiB, driver and other processes 1019.99 MiB" in report.text()
    assert "  executable 'train' 3.00 MiB" in report.text()
    assert "  2 more owners 2.00 KiB" in report.text() and "'slice 6'" not in report.text()
    assert "'slice 6'" in report.text(most=7) and "more owner" not in report.text(most=7)
    data = json.loads(json.dumps(report.as_dict()))
    assert sum(data["by_kind"].values()) == sum(one["nbytes"] for one in data["owners"])
    assert data["driver"] + data["by_kind"]["executable"] == data["outside"]
    pool.forget_executable("handle")
    pool.forget_executable("handle")
    assert pool.executables() == [("train", 1 << 20)]


def test_an_exclusive_slice_is_not_given_back_while_it_is_held() -> None:
    pool, _ = make_pool()
    piece, graph = pool.take("workspace", KIB), Graph("train")
    exclusive = pool.make_exclusive(piece)
    assert pool.make_exclusive(piece) is exclusive and pool.is_exclusive(piece.part(0, (4,)))
    pool.hold(piece, graph)
    assert pool.borrowed(graph) == (exclusive,) and pool.borrowed(Graph("train")) == ()
    with pytest.raises(WorkspaceInUse, match="'workspace' is borrowed by train"):
        pool.give_back(piece)
    with pytest.raises(PoolError, match="serves train"):
        pool.close()
    pool.release(graph)
    pool.give_back(piece)
    again = pool.take("array", KIB)
    assert again.address == exclusive.piece._address and not pool.is_exclusive(again)
    pool.close()


def test_a_lasting_slice_belongs_to_no_pass() -> None:
    pool, _ = make_pool()
    kept: list[Any] = []
    with pool.eager_pass("step") as running:
        kept.append(pool.take("lasting", KIB, lasting=True))
        pool.take("passing", KIB)
    assert kept[0].alive and running.figures.slices == 1
    assert [share.name for share in shares(pool)] == ["lasting"]


def test_an_address_is_described_for_messages(rig: Rig) -> None:
    pool = PersistentPool(rig.device)
    piece, graph = pool.take("x", 100), Graph("train")
    slot = pool.staging.slot("losses", (4,))
    pool.hold(piece, graph)
    said = describe_address(pool, piece.address + 12)
    assert said.startswith("byte 12 of Slice('x', float32 [100], 400 bytes")
    assert said.endswith("id 1, generation 1), held by train")
    assert "pinned staging slot" in describe_address(pool, slot.device_address + 4)
    address = piece.address
    pool.give_back(piece)
    assert "given back), held by train" in describe_address(pool, address)
    pool.release(graph)
    assert "in a free block of 512 bytes" in describe_address(pool, address)
    assert describe_address(pool, 8) == "0x8, outside the pool"
    pool.close()
