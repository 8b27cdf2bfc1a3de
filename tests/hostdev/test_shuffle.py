"""Shuffle mode: every order that CUDA allows may come, a seed brings the same again, edges hold."""

from __future__ import annotations

import itertools
import json
from functools import lru_cache
from typing import Any

import pytest

from lowgraph.errors import ConfigError
from lowgraph.hostdev import build, settings
from tests.hostdev.orders import BLOCKS, BRANCHES, COPIES, THREADS
from tests.support.process import run_python

pytestmark = pytest.mark.host
VARIABLE = "LOWGRAPH_HOST_SHUFFLE"
SEEDS = ("1", "2", "18446744073709551615")
ORDERED = ("threads", "blocks", "branches", "children")


@lru_cache
def orders(seed: str, turn: int = 0, check: str = "0") -> Any:
    build.library()  # it would say on stderr that it builds
    variables = {VARIABLE: seed, "LOWGRAPH_HOST_CHECK": check}
    done = run_python("from tests.hostdev import orders; orders.main()", variables)
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout), "stderr": done.stderr}


def late_copies(seed: str, busy: int = 0) -> list[list[int]]:
    build.library()
    code = f"from tests.hostdev import orders; orders.main_late({busy})"
    done = run_python(code, {VARIABLE: seed})
    assert done.returncode == 0, done.stderr
    found: list[list[int]] = json.loads(done.stdout)
    return found


def warp_changes(threads: list[int]) -> int:
    warps = [thread // 32 for thread in threads]
    return sum(a != b for a, b in itertools.pairwise(warps))


def test_without_the_variable_all_is_in_order() -> None:
    found = orders("")
    first, after_barrier, after_operation = found["threads"]
    assert first == list(range(THREADS))
    # Whoever comes last to a barrier goes on at once, then its warp, then the others in turn.
    assert after_barrier == [THREADS - 1, *range(64, THREADS - 1), *range(64)]
    assert warp_changes(after_operation) == warp_changes(first) == 2
    assert found["blocks"] == list(range(BLOCKS))
    sides = [step for branch in range(BRANCHES) for step in (branch, 10 + branch)]
    assert sorted(found["branches"][1:-1]) == sorted(sides)
    assert found["children"] == [0, 1, 2, 3, 10, 11, 12, 13]
    assert found["wrong_sums"] == 0
    assert found["title"] == "lowgraph host device"
    assert found["stderr"] == ""


@pytest.mark.parametrize("seed", SEEDS)
def test_everything_comes_once_and_edges_hold(seed: str) -> None:
    found = orders(seed)
    for phase in found["threads"]:
        assert sorted(phase) == list(range(THREADS))
    assert sorted(found["blocks"]) == list(range(BLOCKS))
    root, *between, join = found["branches"]
    assert (root, join) == (100, 200)
    assert len(set(between)) == 2 * BRANCHES
    assert all(between.index(a) < between.index(10 + a) for a in range(BRANCHES))
    for chain in (0, 10):
        assert [x for x in found["children"] if x // 10 == chain // 10] == [
            chain + place for place in range(4)
        ]


def test_orders_differ_from_seed_to_seed_and_from_the_plain_one() -> None:
    for part in ("threads", "blocks", "branches"):
        found = [json.dumps(orders(seed)[part]) for seed in ("", *SEEDS)]
        assert len(set(found)) == len(found), part
    mixed = [orders(seed)["children"] for seed in SEEDS]
    assert any([x // 10 for x in order] not in ([0] * 4 + [1] * 4, [1] * 4 + [0] * 4)
               for order in mixed), f"children never overlap: {mixed}"  # fmt: skip


def test_threads_are_stirred_after_barriers_and_warp_operations_too() -> None:
    for seed in SEEDS:
        first, after_barrier, after_operation = orders(seed)["threads"]
        lists = (first, after_barrier, after_operation)
        assert len({tuple(phase) for phase in lists}) == 3
        for phase in lists:
            assert warp_changes(phase) > 10, "one warp after another"
    # The last one to come does not always go on first.
    assert {orders(seed)["threads"][1][0] for seed in SEEDS} != {THREADS - 1}


def test_a_seed_brings_the_same_orders_again() -> None:
    first, second = orders("1"), orders("1", turn=1)
    assert {part: first[part] for part in ORDERED} == {part: second[part] for part in ORDERED}


def test_ops_are_held_back() -> None:
    # 40 ops, half of them held back by 1 us to 2 ms, 0.17 ms on average over all: 6.8 ms.
    assert all(orders(seed)["delayed"] > 0.001 for seed in SEEDS)
    assert sum(orders(seed)["delayed"] for seed in SEEDS) > 0.006


def test_a_missing_barrier_shows() -> None:
    assert all(orders(seed)["wrong_sums"] > 0 for seed in SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_synchronous_copy_may_arrive_behind_its_call(seed: str) -> None:
    """From pageable memory and on the device; the host's wait for the legacy stream orders it, and
    so does blocking mode, in which every call waits."""
    unordered, waited, blocking = late_copies(seed)
    assert all(0 < late < COPIES for late in unordered), unordered
    assert waited == blocking == [0, 0]


def test_a_plain_run_waits_for_synchronous_copies() -> None:
    assert late_copies("", busy=16 << 20) == [[0, 0]] * 3


def test_the_seed_is_told_once_and_in_the_title() -> None:
    found = orders("2")
    assert found["stderr"] == "lowgraph host device: LOWGRAPH_HOST_SHUFFLE=2\n"
    assert found["title"] == "lowgraph host device, shuffle seed 2"


def test_nothing_is_stirred_while_checking() -> None:
    plain, found = orders("", check="1"), orders("1", check="1")
    parts = (*ORDERED, "wrong_sums", "title")
    assert {part: found[part] for part in parts} == {part: plain[part] for part in parts}
    told = "lowgraph host device: LOWGRAPH_HOST_SHUFFLE is not heeded while checking\n"
    # The orders are seen by races, which a run with the switch alone tells of as it ends.
    assert "kernels did something wrong" in plain["stderr"]
    assert found["stderr"] == told + plain["stderr"]


RANDOM = "from lowgraph.driver import open_device; print(open_device('host').title)"


def test_random_picks_a_seed_and_tells_it() -> None:
    done = run_python(RANDOM, {VARIABLE: "random"})
    seed = done.stderr.strip().removeprefix("lowgraph host device: LOWGRAPH_HOST_SHUFFLE=")
    assert seed.isdecimal(), done.stderr
    assert done.stdout.strip().endswith(f", shuffle seed {seed}")


@pytest.mark.parametrize("told", ["-1", "1.5", "yes", "18446744073709551616", "٣", " 1"])
def test_another_value_is_refused_by_python(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, told)
    with pytest.raises(ConfigError, match=r"HOST_SHUFFLE is .*: give a seed, an integer from 0"):
        settings.shuffle()


BARE = """
import os
from lowgraph import hostdev
library = hostdev.load()  # built, and loaded before the value is there
os.environ["LOWGRAPH_HOST_SHUFFLE"] = {told!r}
print(library.cuInit(0))
"""


@pytest.mark.parametrize("told", ["-1", "yes", "1x", "18446744073709551616"])
def test_another_value_is_refused_by_the_library(told: str) -> None:
    done = run_python(BARE.format(told=told), {VARIABLE: ""})
    assert done.stdout == "1\n", "CUDA_ERROR_INVALID_VALUE"
    assert "must be an integer from 0 or the word random" in done.stderr
