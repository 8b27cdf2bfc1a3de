"""The atlas of a step: counts against the driver's, arms and crosses, prices, the roadmap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from lowgraph.capture import Conditional
from lowgraph.errors import ConfigError
from lowgraph.memory import open_window, upload
from lowgraph.stages import arm, stage, without
from lowgraph.train.atlas import make_atlas, measure, summarise, text_of
from lowgraph.train.atlas.prices import CHAIN, measure_prices
from lowgraph.train.atlas.roadmap import RESIDENT, Link, merges
from lowgraph.train.atlas.subject import by_stage
from tests.atlas.clocks import not_shuffled
from tests.atlas.parts import LONG, SHORT, Parts, graph_nodes

pytestmark = pytest.mark.both
STEPS = 4


def _body(parts: Parts, stream: int) -> None:
    """Five to nine kernels: arms a and b alone, one that needs both, one that needs either."""
    with stage("forward"):
        parts.touch(stream)
        with arm("a") as a:
            if a:
                parts.touch(stream)
                parts.spin(stream, 0)
    with stage("backward"):
        with arm("b") as b:
            (parts.touch if b else lambda s: parts.spin(s, 0))(stream)
        if a and b:
            parts.touch(stream)
        if a or b:
            parts.touch(stream)
            parts.touch(stream)
    parts.touch(stream)


def _launched(parts: Parts, *off: str) -> int:
    """Kernels of an eager step, counted below us."""
    with without(*off), parts.rig.device.count_calls() as below:
        _body(parts, parts.stream)
    if not below.counted_by:
        pytest.skip("nothing counts calls below us here")
    return sum(n for name, n in below.calls.items() if name.startswith("cuLaunchKernel"))


def test_counts_are_the_drivers(parts: Parts) -> None:
    subject = parts.subject(lambda stream: _body(parts, stream))
    found = measure(subject, STEPS)
    step = parts.step(subject.body)
    step()
    step()
    kernels: Counter[str] = Counter()
    for (_, kernel), count in found.nodes.items():
        kernels[kernel] += count
    assert kernels == Counter(graph_nodes(step))
    assert found.launches == found.nodes
    assert by_stage(found.nodes) == {"forward": 1, "forward/a": 2, "backward/b": 1, "backward": 3,
                                     "": 1}  # fmt: skip
    assert found.launches.total() == _launched(parts)
    assert found.arms == ("a", "b") and found.why_no_graph == ""


def test_rows_are_of_the_eager_step_and_of_the_replays(parts: Parts) -> None:
    found = measure(parts.subject(lambda stream: _body(parts, stream)), STEPS)
    stages = ["", "forward", "forward/a", "backward", "backward/b"]
    assert [(row.step, row.stage) for row in found.rows] == [
        (step, name) for step in range(1, STEPS + 1) for name in stages
    ]
    counts = {"": 1, "forward": 3, "forward/a": 2, "backward": 4, "backward/b": 1}
    for row in found.rows:
        sent = counts[row.stage]
        assert (row.launches, row.nodes) == ((sent, 0) if row.step == 1 else (0, sent))
        assert row.us > 0
    assert len(found.plain_us) == len(found.timed_us) == STEPS - 2
    assert found.event_nodes == 1 + 5, "the begin, and behind each part that has work"
    assert found.eager_us > 0 and found.eager_stages_us.keys() == set(stages)


def test_the_hosts_part_is_done_around_every_step(parts: Parts) -> None:
    steps: list[float] = []

    def around(run: Callable[[], object]) -> None:
        before = parts.touched()
        run()
        steps.append(parts.touched() - before)

    subject = replace(parts.subject(parts.touch), around=around)
    make_atlas(subject, STEPS, [])
    # The plain step to be recorded, and the others; the eager one that is counted; the timed ones.
    assert steps == [1.0] * (2 + (STEPS - 2) + 1 + STEPS + 2 * (STEPS // 3))
    assert parts.touched() == len(steps)


def test_without_a_graph_every_step_launches(parts: Parts) -> None:
    atlas = make_atlas(parts.subject(lambda stream: _body(parts, stream)), 3, graph=False)
    assert atlas.nodes == 0 and atlas.launches == 8
    assert {row.nodes for row in atlas.full.rows} == {0}
    assert [row.launches for row in atlas.full.rows if row.stage == "forward"] == [3, 3, 3]
    assert atlas.full.why_no_graph == "asked for without a graph"
    assert atlas.prices.node_us == 0 and atlas.as_dict()["replay_ceiling_us"] is None
    assert any("no graph (asked for without a graph)" in line for line in text_of(atlas))


def test_arms_and_their_cross(parts: Parts) -> None:
    subject = parts.subject(lambda stream: _body(parts, stream))
    atlas = make_atlas(subject, STEPS)
    a, b = atlas.arms
    assert (a.off, b.off) == (("a",), ("b",))
    assert dict(a.launches) == {("forward/a", "touch"): 1, ("forward/a", "spin"): 1,
                                ("backward", "touch"): 1}  # fmt: skip
    assert a.nodes == a.launches and not a.new_launches
    assert dict(b.launches) == {("backward/b", "touch"): 1, ("backward", "touch"): 1}
    assert dict(b.new_launches) == dict(b.new_nodes) == {("backward/b", "spin"): 1}
    (cross,) = atlas.crosses
    assert cross.arms == ("a", "b")
    # One needs both: counted by either. Two need either: lost by neither alone.
    assert cross.joint_launches == cross.joint_nodes == {"backward": 1 - 2}
    full = _launched(parts)
    for one in (a, b, cross.both):
        assert one.net_launches.total() == full - _launched(parts, *one.off)
    joint = sum(cross.joint_launches.values())
    assert joint == (full - _launched(parts, "a")) + (full - _launched(parts, "b")) - (
        full - _launched(parts, "a", "b")
    )
    text = "\n".join(text_of(atlas))
    assert "without a: 3 launches and 3 nodes fewer" in text
    assert "  backward/b: spin 1 time more without" in text
    assert "  backward: 1 launch with either one on, or both" in text
    rest = _launched(parts, "a", "b")
    assert f"undetermined: {rest} of {full} launches are in every run" in text


def test_the_time_of_an_arm_is_in_its_stage(parts: Parts) -> None:
    def body(stream: int) -> None:
        with stage("slow"), arm("long") as on:
            parts.spin(stream, 0)
            if on:
                parts.spin(stream, 1)
        with stage("fast"):
            parts.touch(stream)

    # Of the warm window's means: a busy machine may add milliseconds to any step of a few.
    parts.set_rounds(SHORT, 10 * LONG)
    (found,) = make_atlas(parts.subject(body), 9).arms
    assert found.us > 0 and found.own_us["slow/long"] > 2 * abs(found.own_us["fast"])
    assert found.own_us.keys() == {"", "slow", "slow/long", "fast"}


def test_only_arms_that_the_step_has(parts: Parts) -> None:
    subject = parts.subject(lambda stream: _body(parts, stream))
    assert [one.off for one in make_atlas(subject, 3, ["b", "b"]).arms] == [("b",)]
    none = make_atlas(subject, 3, [])
    assert none.arms == none.crosses == []
    with pytest.raises(ConfigError, match="--arms ema: no such arm; the step has a, b"):
        make_atlas(subject, 3, ["a", "ema"])
    with pytest.raises(ConfigError, match="the step has none"):
        make_atlas(parts.subject(parts.touch), 3, ["ema"])


@pytest.mark.parametrize("steps", [0, 2])
def test_too_few_steps_are_refused(parts: Parts, steps: int) -> None:
    with pytest.raises(ConfigError, match="at least 3"):
        make_atlas(parts.subject(parts.touch), steps)


def test_populations_are_ranked_and_priced(parts: Parts) -> None:
    atlas = make_atlas(parts.subject(lambda stream: _body(parts, stream)), 3, [])
    first = atlas.populations[0]
    assert (first.stage, first.kernel, first.nodes) == ("backward", "touch", 3)
    assert sum(one.share for one in atlas.populations) == pytest.approx(1.0)
    assert sum(one.launches for one in atlas.populations) == atlas.launches == 8
    assert first.share == pytest.approx(3 / 8)
    assert first.eager_us == pytest.approx(3 * atlas.prices.launch_us)
    assert first.replay_us == pytest.approx(3 * atlas.prices.node_us)
    shares = [one.share for one in atlas.populations]
    assert shares == sorted(shares, reverse=True)
    free = atlas.full.step_us - 8 * atlas.prices.node_us
    assert atlas.replay_ceiling_us == pytest.approx(max(free, 0.0))


@not_shuffled
def test_the_price_is_of_the_chain(parts: Parts) -> None:
    """The chain is launched as often as it says, and leaves nothing in the pool."""
    subject = parts.subject(parts.touch)
    live = parts.pool.stats().live
    measure_prices(subject)
    with parts.rig.device.count_calls() as below:
        prices = measure_prices(subject, graph=False)
    assert prices.launch_us > 0 and prices.node_us == 0
    both = measure_prices(subject)
    assert 0 < both.node_us < 50 * both.launch_us, "of one node, not of the chain"
    assert both.launch_us < 50 * both.node_us
    if below.counted_by:
        launches = sum(n for name, n in below.calls.items() if name.startswith("cuLaunchKernel"))
        assert launches == 8 * CHAIN, "once to warm up, seven times for the median"
        assert "cuGraphLaunch" not in below.calls
    assert parts.pool.stats().live == live


def test_library_calls_count_in_their_stage(parts: Parts) -> None:
    """The library: a launch past the kernel library, which it reports only while recording."""

    def body(stream: int) -> None:
        with stage("gemm"):
            recorder = open_window.recorder()
            observer = _silenced()
            parts.touch(stream)
            parts.touch(stream)
            _restored(observer)
            if recorder is not None:
                window = open_window.mine()
                recorder.library_call("foreign", None if window is None else 2, ())
        parts.spin(stream, 0)

    found = measure(parts.subject(body), 3)
    assert found.launches == found.nodes == {("gemm", "touch"): 2, ("", "spin"): 1}
    bare = measure(parts.subject(body), 3, graph=False)
    assert bare.launches == {("gemm", "foreign (library call)"): 1, ("", "spin"): 1}


def test_nodes_in_the_body_of_a_conditional_count_once(parts: Parts) -> None:
    flag = parts.pool.take("flag", 1, np.int32)
    upload(flag, np.ones(1, np.int32), parts.stream)
    parts.rig.sync()
    steer = Conditional(parts.rig.library)

    def inner(stream: int) -> None:
        with stage("inner"):
            parts.touch(stream)

    def body(stream: int) -> None:
        with stage("outer"):
            steer.run_if(stream, flag, inner)

    found = measure(parts.subject(body), 3)
    assert found.why_no_graph == ""
    assert found.nodes["outer/inner", "touch"] == 1 and found.launches["outer/inner", "touch"] == 1
    assert found.nodes["outer", "conditional"] + found.nodes["", "conditional"] == 1


def _silenced() -> tuple[object, object]:
    from lowgraph.driver import gate
    from lowgraph.kernels import launch

    before = gate.observer, launch.observer
    gate.observer = launch.observer = None
    return before


def _restored(before: tuple[object, object]) -> None:
    from lowgraph.driver import gate
    from lowgraph.kernels import launch

    gate.observer, launch.observer = before  # type: ignore[assignment]


# ---- the roadmap, without a device ----


def _chain(*nodes: tuple[str, str, int, bool]) -> list[Link]:
    return [Link(*node) for node in nodes]


def test_neighbours_are_small_follow_each_other_and_are_of_one_stage() -> None:
    most = 2 * RESIDENT
    links = _chain(
        ("a", "x", 1, False), ("a", "y", most, True),       # a pair
        ("b", "x", 1, True), ("b", "y", 1, True),           # another stage: a pair of its own
        ("b", "big", most + 1, True), ("b", "x", 1, True),  # too large, and one alone behind it
        ("b", "y", 1, False), ("b", "x", 1, True),          # a fork begins: y > x
        ("b", "memset", 0, True), ("b", "x", 1, True),      # no kernel
        ("a", "x", 9, True), ("a", "y", 9, True), ("a", "z", 9, True),
    )  # fmt: skip
    found = [(one.stage, one.kernels, one.times, one.saved) for one in merges(links, 2)]
    assert found == [
        ("a", ("x", "y", "z"), 1, 2),
        ("a", ("x", "y"), 1, 1),
        ("b", ("x", "y"), 1, 1),
        ("b", ("y", "x"), 1, 1),
    ]


def test_what_comes_again_is_counted_together() -> None:
    pair = (("a", "x", 1, False), ("a", "y", 1, True))
    (found,) = merges(_chain(*pair, ("b", "one", 1, True), *pair, *pair), 1)
    assert (found.times, found.saved) == (3, 3)
    assert merges([], 1) == []


def test_a_loop_in_one_stage_is_its_repetitions() -> None:
    layer = [("a", name, 1, True) for name in "xyx"]
    (found,) = merges(_chain(*layer, *layer, *layer), 1)
    assert (found.kernels, found.times, found.saved) == (("x", "y", "x"), 3, 6)
    (same,) = merges(_chain(*[("a", "x", 1, True)] * 3), 1)
    assert (same.kernels, same.times) == (("x", "x", "x"), 1)


def test_links_are_read_from_the_graph(parts: Parts) -> None:
    atlas = make_atlas(parts.subject(lambda stream: _body(parts, stream)), 3, [])
    links = atlas.full.links
    assert [link.follows for link in links] == [False] + [True] * 7
    assert [link.threads for link in links if link.name == "spin"] == [1]
    assert {link.threads for link in links if link.name == "touch"} == {384}
    assert [(one.stage, one.kernels) for one in atlas.merges] == [
        ("backward", ("touch",) * 3),
        ("forward/a", ("touch", "spin")),
    ]


def test_figures_of_the_summary_are_those_of_the_rows(parts: Parts) -> None:
    atlas = make_atlas(parts.subject(lambda stream: _body(parts, stream)), 6, [])
    figures = atlas.as_dict()
    assert [one["stage"] for one in figures["stages"]] == [one.stage for one in atlas.stages]
    assert atlas.stages == summarise(atlas.full.rows)
    outer = [one for one in figures["stages"] if "/" not in one["stage"]]
    assert sum(one["launches"] for one in outer) == sum(one["nodes"] for one in outer) == 8
    assert sum(one["own_nodes"] for one in figures["stages"]) == 8
    assert all(one["us"] > 0 and one["eager_us"] > 0 for one in figures["stages"])
