"""What a diff says of two graphs: each kind of change, and whether an update would do."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lowgraph import cli, debug, driver
from lowgraph.debug import Diff, Form, Verdict
from tests.capture.bodies import FOUR, THREE, Body, N, Parts, chain
from tests.capture.test_update import ACCEPTED, REFUSED, middle
from tests.debug.raw import recorded
from tests.debug.test_files import HOSTILE, sample

pytestmark = pytest.mark.both


def both(parts: Parts, first: Body, second: Body) -> tuple[Diff, bool]:
    """The diff of two recordings of one step, and whether its executable was updated."""
    step = parts.live(first)
    old = debug.read(step)
    parts.run = second
    updated = step.recapture()
    return debug.diff(old, debug.read(step)), updated


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_the_driver_accepts_is_updatable(parts: Parts, name: str) -> None:
    found, updated = both(parts, *ACCEPTED[name])
    assert updated and (found.verdict, found.reason) == (Verdict.UPDATABLE, "")


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_driver_refuses_must_be_instantiated_anew(parts: Parts, name: str) -> None:
    first, second, reason, node, _ = REFUSED[name]
    found, updated = both(parts, first, second)
    assert not updated and (found.verdict, found.reason) == (Verdict.REINSTANTIATE, reason)
    assert found.at == (None if "node more" in name else node), "the driver counts first"


@pytest.mark.parametrize(("before", "now"), [(None, 2), (2, 4), (4, 2), (2, None)])
def test_a_cluster_size_is_accepted_and_wrong(
    parts: Parts, before: int | None, now: int | None
) -> None:
    found, updated = both(
        parts, middle(lambda p: p.clustered(before)), middle(lambda p: p.clustered(now))
    )
    assert not updated, "lowgraph does not ask a driver that would say yes"
    assert (found.verdict, found.reason, found.at) == (Verdict.WRONG, "CLUSTER_CHANGED", 1)
    (node,) = found.nodes
    assert [(one.what, one.name) for one in node.changes] == [("attribute", "cluster")]
    assert "driver accepts, result wrong (CLUSTER_CHANGED): attribute cluster: " in str(node)


# First and second body, and what is told of the second's nodes: (node, what, name, old, new).
SAID: dict[str, tuple[Body, Body, list[tuple[int | None, str, str, str, str]]]] = {
    "nothing": (THREE, THREE, []),
    "scalar": (
        THREE,
        chain(Parts.add, Parts.scale, lambda p: p.add(7.0)),
        [(2, "scalar", "value", "1.0", "7.0")],
    ),
    "grid and block": (
        THREE,
        chain(Parts.add, Parts.scale, lambda p: p.add(block=64)),
        [
            (2, "size", "grid", "(3, 1, 1)", "(5, 1, 1)"),
            (2, "size", "block", "(128, 1, 1)", "(64, 1, 1)"),
        ],
    ),
    "shared": (
        THREE,
        chain(Parts.add, Parts.scale, lambda p: p.add(shared=64)),
        [(2, "size", "shared", "0", "64")],
    ),
    "pointer": (Parts.add, Parts.add_to_y, [(0, "pointer", "x", "x at ", "y at ")]),
    "kernel": (
        Parts.add,
        Parts.scale,
        [
            (0, "kernel", "", "add", "scale"),
            (0, "argument", "", "value = 1.0", "factor = 2.0"),
        ],
    ),
    "memset value": (
        Parts.fill,
        lambda p: p.fill(value=1),
        [(0, "attribute", "value", "0", "1")],
    ),
    "added": (THREE, FOUR, [(3, "added", "", "nothing", "add")]),
    "removed": (FOUR, THREE, [(None, "removed", "", "add", "nothing")]),
    "added in the middle": (
        chain(Parts.add, Parts.fill),
        chain(Parts.add, Parts.scale, Parts.fill),
        [
            (1, "added", "", "nothing", "scale"),
            (2, "rewired", "", "waits for 0", "waits for 1"),
        ],
    ),
    "type": (
        THREE,
        middle(Parts.fill),
        [(1, "type", "", "kernel", "memset")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_each_kind_of_change_is_told(parts: Parts, name: str) -> None:
    first, second, wanted = SAID[name]
    found, _ = both(parts, first, second)
    told = [(node.new, *change_of) for node in found.nodes for change_of in
            ((c.what, c.name, c.old, c.new) for c in node.changes)]  # fmt: skip
    assert len(told) == len(wanted), told
    for ours, theirs in zip(told, wanted, strict=True):
        assert ours[:3] == theirs[:3]
        assert ours[3].startswith(theirs[3]) and ours[4].startswith(theirs[4])
    assert found.same + sum(one.new is not None for one in found.nodes) == len(
        debug.read(parts.step).nodes
    )
    assert found.counts() == {what: sum(w[1] == what for w in wanted) for _, what, *_ in wanted}


def test_a_slice_that_moved_is_an_address_and_no_line(parts: Parts) -> None:
    step = parts.live(Parts.add_all)
    old = debug.read(step)
    kept, parts.y = parts.y, parts.pool.take("y", N)
    assert step.recapture() is True
    found = debug.diff(old, debug.read(step))
    assert found.counts() == {"address": 1} and found.verdict is Verdict.UPDATABLE
    assert list(found.lines()) == [
        "an update would be: updatable",
        "0 nodes the same, 1 not: 1 address",
    ]
    parts.pool.give_back(kept)


PIECES: tuple[Body, ...] = (
    Parts.add, Parts.scale, Parts.add_all, Parts.fill, Parts.copy, Parts.copy_in, Parts.fork,
    Parts.add_to_y, lambda p: p.add(block=64), Parts.fill_bytes, Parts.cooperative,
    lambda p: p.fork(lambda q: q.add_to_y(q.side), Parts.scale), lambda p: p.copy(nbytes=64),
)  # fmt: skip


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_random_pairs_are_judged_as_the_driver_answers(parts: Parts, seed: int) -> None:
    random = np.random.default_rng(seed)
    seen = {0: 0, 910: 0}
    for _ in range(40):
        first = list(random.integers(0, len(PIECES), random.integers(1, 5)))
        second = list(first)
        for _ in range(random.integers(0, 3)):  # near each other, so that both answers occur
            second[random.integers(len(second))] = int(random.integers(0, len(PIECES)))
        with (
            recorded(parts, chain(*(PIECES[n] for n in first))) as one,
            recorded(parts, chain(*(PIECES[n] for n in second))) as two,
        ):
            found = debug.diff(debug.read_handle(one), debug.read_handle(two))
            executable = driver.graph.instantiate(one)
            try:
                answer = driver.graph.update(executable, two)
            finally:
                driver.graph.exec_destroy(executable)
            seen[answer.code] += 1
            place = None if answer.node is None else driver.graph.nodes(two).index(answer.node)
        refused = Verdict.REINSTANTIATE, answer.reason, place
        wanted = (Verdict.UPDATABLE, "", None) if answer.ok else refused
        assert (found.verdict, found.reason, found.at) == wanted, (first, second)
    assert min(seen.values()) >= 5, "both answers, several times each"


def switched_off(form: Form) -> Form:
    return replace(form, nodes=(replace(form.nodes[0], enabled=False), *form.nodes[1:]))


def test_what_is_not_known_is_said(parts: Parts) -> None:
    form = debug.read(parts.live(THREE))
    found = debug.diff(switched_off(form), form)
    assert (found.verdict, found.reason) == (Verdict.UNKNOWN, "NODE_DISABLED")
    found = debug.diff(sample(), sample())
    assert found.verdict is Verdict.UNKNOWN and found.reason == "a node of type conditional"


def test_the_command_compares_two_files(
    parts: Parts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json", tmp_path / "c.json"]
    step = parts.live(THREE)
    paths[0].write_text(json.dumps(debug.as_dict(debug.read(step))))
    parts.run = middle(Parts.fill)
    step.recapture()
    paths[1].write_text(json.dumps(debug.as_dict(debug.read(step))))
    assert cli.main(["diff", *map(str, paths[:2]), "--json", str(paths[2])]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "an update would be: must re-instantiate (NODE_TYPE_CHANGED)"
    assert told[1] == "2 nodes the same, 1 not: 1 type"
    assert "must re-instantiate (NODE_TYPE_CHANGED): type: kernel -> memset" in told[2]
    figures = json.loads(paths[2].read_text())
    assert (figures["verdict"], figures["at"]) == ("must re-instantiate", 1)
    assert figures["nodes"][0]["changes"] == [
        {"what": "type", "name": "", "old": "kernel", "new": "memset"}
    ]
    assert cli.main(["diff", str(paths[0]), str(tmp_path / "none.json")]) == 2
    assert "none.json cannot be read" in capsys.readouterr().err


def test_names_of_a_hostile_file_are_escaped() -> None:
    form = sample()
    nodes = (replace(form.nodes[0], name=HOSTILE, where=HOSTILE), *form.nodes[1:])
    for pair in ((form, replace(form, nodes=nodes)), (replace(form, nodes=nodes), form)):
        told = list(debug.diff(*pair).lines())
        assert all(line.isprintable() for line in told) and any("\\x1b" in line for line in told)
