"""A window has its slices where its priming pass had them: it never misses, whatever went before.

Random bodies over a fake upstream, thousands with --seeds all.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import pytest

from lowgraph.errors import CaptureAllocationError
from lowgraph.memory import PersistentPool, Primed, Slice
from lowgraph.memory.free_list import Block, FreeList, aligned
from lowgraph.memory.places import Place, Route, union
from tests.memory.fakes import FakeUpstream, make_pool

SIZES = [0, 1, 31, 33, 257, 64 * 1024, 1 << 20, (1 << 20) + 1, 5 << 20]


class Act(NamedTuple):
    """Take `nbytes` under a name, or (nbytes None) give back what was taken as number `which`."""

    which: int
    nbytes: int | None = None
    name: str = ""


def script(chance: random.Random, takes: int) -> list[Act]:
    """Takes and gives; some slices are never given back. Names are those of layers, or one."""
    names = chance.choice([["t"], [f"layer {n}" for n in range(4)], [f"s{n}" for n in range(99)]])
    acts: list[Act] = []
    live: list[int] = []
    for which in range(takes):
        acts.append(Act(which, chance.choice([*SIZES, chance.randint(1, 1 << 21)]),
                        chance.choice(names)))  # fmt: skip
        live.append(which)
        while live and chance.random() < 0.45:
            acts.append(Act(live.pop(chance.randrange(len(live)))))
    return acts


def run(pool: PersistentPool, acts: list[Act]) -> dict[int, Slice]:
    """The body; each slice is checked against those that live."""
    taken: dict[int, Slice] = {}
    live: dict[int, tuple[int, int]] = {}
    for act in acts:
        if act.nbytes is None:
            del live[act.which]
            pool.give_back(taken[act.which])
        else:
            piece = taken[act.which] = pool.take(act.name, act.nbytes, "u1")
            live[act.which] = piece.address, piece.address + aligned(act.nbytes)
            ordered = sorted(live.values())
            assert all(left[1] <= right[0] for left, right in pairwise(ordered)), "two overlap"
    return taken


def used_pool(chance: random.Random, **options: int) -> tuple[PersistentPool, FakeUpstream]:
    """A pool that had slices before; some of them live on."""
    pool, upstream = make_pool(**options)
    kept = [pool.take("old", chance.choice(SIZES), "u1") for _ in range(chance.randint(0, 12))]
    for piece in kept:
        if chance.random() < 0.6:
            pool.give_back(piece)
    return pool, upstream


def others(pool: PersistentPool, chance: random.Random) -> None:
    """What happens between a step's passes: slices come and go, memory goes to the driver."""
    for _ in range(chance.randint(0, 8)):
        piece = pool.take("between", chance.choice(SIZES), "u1")
        if chance.random() < 0.6:
            pool.give_back(piece)
    if chance.random() < 0.3:
        pool.trim()


def primed_with(pool: PersistentPool, body: Callable[[], object]) -> Primed:
    with pool.priming("step") as primed:
        body()
    return primed


def addresses(slices: dict[int, Slice]) -> list[int]:
    return [piece._address for _, piece in sorted(slices.items())]


@pytest.fixture
def seeds(pytestconfig: pytest.Config) -> int:
    return 2500 if pytestconfig.getoption("--seeds") == "all" else 150


def cases(seeds: int) -> Iterator[tuple[random.Random, list[Act]]]:
    for seed in range(seeds):
        chance = random.Random(seed)
        yield chance, script(chance, chance.randint(1, 30))


@pytest.mark.parametrize("resting", [0, 3])
def test_an_unchanged_body_never_misses_and_has_each_slice_where_it_was(
    resting: int, seeds: int
) -> None:
    for chance, acts in cases(seeds):
        pool, upstream = used_pool(chance, resting=resting)
        before = pool.stats().reserved
        there: dict[int, Slice] = {}
        primed = primed_with(pool, lambda: there.update(run(pool, acts)))  # noqa: B023
        figures = primed.figures
        assert figures.peak <= figures.used <= figures.bytes and figures.grown <= figures.used
        assert pool.stats().reserved <= before + figures.grown, "and no more comes to it"
        assert pool.stats().primed == figures.used
        others(pool, chance)
        allocs, graph = upstream.allocs, object()
        for attempt in range(chance.randint(0, 2)):  # a probe pass, or one that was refused
            pool.begin_window(f"attempt {attempt}", primed)
            run(pool, acts[: chance.randint(0, len(acts))])
            pool.abort_window()
        pool.begin_window("step", primed)
        here = run(pool, acts)
        window = pool.end_window(graph)
        assert upstream.allocs == allocs and pool.retained(graph) == window.used <= figures.used
        assert resting or addresses(here) == addresses(there)
        _check_sums(pool)
        pool.release(graph)
        assert pool.stats().retained == pool.stats().primed == 0


def test_a_body_that_gives_back_earlier_or_takes_less_never_misses(seeds: int) -> None:
    for chance, acts in cases(seeds):
        pool, upstream = used_pool(chance)
        primed = primed_with(pool, lambda: run(pool, acts))  # noqa: B023
        others(pool, chance)
        given = {act.which for act in acts if act.nbytes is None}
        early = {act.which for act in acts if act.which not in given and chance.random() < 0.4}
        smaller = chance.random() < 0.5
        other: list[Act] = []
        for act in acts:
            if smaller and act.nbytes is not None and chance.random() < 0.3:
                other.append(act._replace(nbytes=chance.randint(0, act.nbytes)))
            else:
                other.append(act)
            if act.which in early:
                other.append(Act(act.which))
        allocs = upstream.allocs
        pool.begin_window("step", primed)
        run(pool, other)
        assert pool.end_window(object()).used <= primed.figures.used
        assert upstream.allocs == allocs
        _check_sums(pool)


def test_a_loop_that_the_window_goes_through_once_never_misses(seeds: int) -> None:
    for chance, acts in cases(seeds):
        cut = chance.randint(0, len(acts))
        loop = [Act(1000 + act.which, act.nbytes, f"loop {act.name}") for act in
                script(chance, chance.randint(1, 10))]  # fmt: skip
        ended = {act.which for act in loop if act.nbytes is None}
        loop += [Act(act.which) for act in loop if act.which not in ended]
        rounds = [act._replace(which=act.which + 1000 * turn) for turn in range(4) for act in loop]
        pool, upstream = used_pool(chance)
        primed = primed_with(pool, lambda: run(pool, acts[:cut] + rounds + acts[cut:]))  # noqa: B023
        allocs = upstream.allocs
        pool.begin_window("step", primed)
        run(pool, acts[:cut] + loop + acts[cut:])
        pool.end_window(object())
        assert upstream.allocs == allocs


def test_where_best_fit_alone_would_miss_the_places_do_not() -> None:
    """The example of decision 19."""
    mib, acts = 1 << 20, list[Act]()
    for which, size in enumerate((10, 4, 5, 4, 10)):
        if which == 4:
            acts += [Act(1), Act(2)]
        acts += [Act(which, size * mib, "t")] + ([Act(0)] if which == 0 else [])
    pool, upstream = make_pool()
    primed = primed_with(pool, lambda: run(pool, acts))
    assert sorted(upstream.live.values()) == [4 * mib, 10 * mib]
    pool.begin_window("step", primed)
    run(pool, acts)
    pool.end_window(object())
    searching = FreeList(Block(size, address, address) for address, size in upstream.live.items())
    taken: dict[int, Block | None] = {}
    for act in acts:
        if act.nbytes is not None:
            taken[act.which] = searching.take(act.nbytes)
            continue
        given = taken[act.which]
        assert given is not None
        searching.give(given)
        searching.coalesce()
    assert taken[4] is None and all(taken[which] for which in range(4))


def test_what_a_window_took_besides_and_gave_back_is_in_nobodys_way() -> None:
    pool, upstream = make_pool()

    def body(more: bool) -> None:
        if more:
            pool.give_back(pool.take("more", 1 << 20, "u1"))
        pool.take("all", 4 << 20, "u1")

    primed = primed_with(pool, lambda: body(False))
    pool.begin_window("step", primed)
    body(True)
    assert pool.end_window(object()).used == 4 << 20 and upstream.allocs == 1


def test_a_slice_in_spare_memory_is_passed_over_in_the_places() -> None:
    """Slices of one name and size: those behind it would each get its neighbour's place."""
    acts = [
        Act(0, 5 << 20, "t"),  # held to the end; in the window given back at once
        *(Act(1, 10 << 20, "t"), Act(1)),
        *(Act(which, 5 << 20, "t") for which in (2, 3, 4)),  # two in the ten, and one that stays
        *(Act(2), Act(3), Act(5, 10 << 20, "t")),
    ]
    pool, upstream = make_pool()
    primed = primed_with(pool, lambda: run(pool, acts))
    assert sum(upstream.live.values()) == 20 << 20
    pool.begin_window("step", primed)
    run(pool, [acts[0], Act(0), *acts[1:]])
    assert pool.end_window(object()).used == 20 << 20


class Array:
    """Over a slice; it lives until somebody ends it."""

    def __init__(self) -> None:
        self.over = False

    def is_over(self) -> bool:
        return self.over


def test_what_arrays_keep_beyond_the_pass_is_in_no_slice_of_the_window(seeds: int) -> None:
    for chance, acts in cases(seeds):
        pool, upstream = used_pool(chance)
        arrays: dict[int, Array] = {}
        there: dict[int, Slice] = {}

        def body() -> None:
            there.update(run(pool, acts))  # noqa: B023
            for which, piece in there.items():  # noqa: B023
                if piece.alive and chance.random() < 0.3:  # noqa: B023
                    arrays[which] = Array()  # noqa: B023
                    pool.lend(piece, arrays[which])  # noqa: B023

        primed = primed_with(pool, body)
        others(pool, chance)
        for array in arrays.values():
            array.over = chance.random() < 0.2
        allocs = upstream.allocs
        pool.begin_window("step", primed)
        here = run(pool, acts)
        pool.end_window(object())
        assert upstream.allocs == allocs
        kept = [there[which] for which, array in arrays.items() if not array.over]
        for piece in kept:
            first, end = piece._address, piece._address + aligned(piece.nbytes)
            assert not any(first < other._address + aligned(other.nbytes) and other._address < end
                           for other in here.values())  # fmt: skip
        _check_sums(pool)


def test_where_there_is_no_other_memory_a_pass_takes_any_that_it_gave_back() -> None:
    """A small slice splits a large block then, also one that would rest."""
    for resting in (0, 3):
        pool, upstream = make_pool(size=4 << 20, resting=resting)
        there: list[int] = []

        def body(pool: PersistentPool = pool, there: list[int] = there) -> None:
            large = pool.take("large", 4 << 20, "u1")
            pool.give_back(large)
            small = pool.take("small", 1, "u1")
            there.append(small.address)
            pool.give_back(small)
            pool.give_back(pool.take("large again", 4 << 20, "u1"))

        primed = primed_with(pool, body)
        assert primed.figures.used == 4 << 20 == sum(upstream.live.values())
        pool.begin_window("step", primed)
        body()
        assert pool.end_window(object()).used == 4 << 20 and there[0] == there[1]


def test_a_small_slice_does_not_split_a_large_block_that_it_could_keep_others_from() -> None:
    pool, _ = make_pool()

    def body() -> None:
        pool.give_back(pool.take("large", 4 << 20, "u1"))
        pool.take("lives on", 1, "u1")
        pool.take("large again", 4 << 20, "u1")

    assert primed_with(pool, body).figures.grown == (4 << 20) + 256


def test_what_was_given_back_in_a_running_pass_is_nobody_elses_and_counts_as_primed() -> None:
    pool, _ = make_pool()
    with pool.priming("step"):
        pool.give_back(pool.take("x", 1024, "u1"))
        lasting = pool.take("lasting", 1024, "u1", lasting=True)
        stats = pool.stats()
        assert (stats.primed, stats.live, stats.free, stats.reserved) == (1024, 1024, 0, 2048)
        places = [(place.state, place.slices[0].name) for place in pool.layout()]
        assert places == [("primed", "x"), ("live", "lasting")] and lasting.alive
    assert pool.stats().primed == 1024


def test_given_back_memory_is_marked_before_it_is_handed_out_again() -> None:
    """On the host device the mark poisons it: a late use in the priming pass shows."""
    pool, _ = make_pool()
    with pool.priming("step"):
        pool.give_back(pool.take("first", 512, "u1"))
        pool.take("second", 512, "u1")
    notes = [note[2:] for note in pool.device.notes]  # type: ignore[attr-defined]
    assert notes[:3] == [("live", "first"), ("free", "first"), ("live", "second")]


def test_a_body_that_takes_more_at_one_time_than_was_primed_is_refused() -> None:
    pool, upstream = make_pool()
    primed = primed_with(pool, lambda: [pool.give_back(pool.take("x", 1000)) for _ in range(2)])
    pool.begin_window("step", primed)
    pool.take("x", 1000)
    with pytest.raises(
        CaptureAllocationError, match=r"took 2 slices, 8.00 KiB in all over 4\.00 K"
    ):
        pool.take("x", 1000)
    pool.abort_window()
    assert upstream.allocs == 1


def test_a_route_goes_by_name_and_size_then_by_what_is_ahead() -> None:
    places = [Place(*each) for each in
              [("a", 256, 0), ("b", 512, 256), ("a", 512, 768), ("a", 256, 1280)]]  # fmt: skip
    route = Route(places)
    assert next(route.candidates("a", 256)) == 0
    assert route.follow(0) is places[0] and route.expected == 1
    assert list(route.candidates("a", 256)) == [3, 2], "its own size, then a larger one"
    assert list(route.candidates("b", 256)) == [1, 1], "the next one, of a larger shape"
    assert list(route.candidates("other name", 512)) == [1], "the next one, if the size is right"
    assert list(route.candidates("other name", 256)) == []
    route.follow(3)
    assert list(route.candidates("b", 512)) == [1], "what was passed over"
    assert list(route.candidates("a", 1024)) == []


def test_union_joins_what_overlaps_and_leaves_neighbours_apart() -> None:
    assert union([(5, 8), (0, 3), (3, 5), (6, 9)]) == [(0, 3), (3, 5), (5, 9)]
    assert union([]) == []


def _check_sums(pool: PersistentPool) -> None:
    stats = pool.stats()
    assert stats.reserved == stats.live + stats.primed + stats.retained + stats.free
    assert stats.reserved == sum(place.block.nbytes for place in pool.layout())
